"""Milliseconds a training step takes in PyTorch Geometric, row by row as `emmy.rs` does it; see README.md."""

import argparse
import json
import pathlib
import pickle

import numpy as np
import torch
import torch.nn.functional as F
from steps import time_steps
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv

# A name, the kind of layer, its number, width of a head, heads, dropout, optimiser with its learning rate.
ROWS = [
    ("gcn-2x16-dropout", "gcn", 2, 16, 1, 0.5, "adam", 0.01),
    ("gcn-2x64", "gcn", 2, 64, 1, 0.0, "adam", 0.01),
    ("gcn-10x64", "gcn", 10, 64, 1, 0.0, "adam", 0.01),
    ("gat-2x8x8-dropout", "gat", 2, 8, 8, 0.6, "adam", 0.005),
    ("gat-2x8x8", "gat", 2, 8, 8, 0.0, "adam", 0.005),
    ("gat-10x8x8", "gat", 10, 8, 8, 0.0, "adam", 0.005),
    ("gatv2-2x64", "gatv2", 2, 64, 1, 0.0, "sgd", 0.1),
    ("gatv2-10x64", "gatv2", 10, 64, 1, 0.0, "sgd", 0.05),
]


def cora(folder):
    """Features (rows that sum to one), edges, labels, training nodes, from the files as published."""
    folder = pathlib.Path(folder)
    folder = folder / "planetoid" if (folder / "planetoid").is_dir() else folder

    def part(name):
        with open(folder / f"ind.cora.{name}", "rb") as file:
            return pickle.load(file, encoding="latin1")

    order = np.loadtxt(folder / "ind.cora.test.index", dtype=int)
    x = np.vstack([part("allx").toarray(), part("tx").toarray()])
    y = np.vstack([part("ally"), part("ty")]).argmax(1)
    x[order], y[order] = x[np.sort(order)], y[np.sort(order)]
    x = x / np.maximum(x.sum(1, keepdims=True), 1)
    pairs = {(a, b) for a, bs in part("graph").items() for b in bs if a != b}
    pairs |= {(b, a) for a, b in pairs}
    train = np.arange(len(y)) < len(part("y"))
    edges = torch.tensor(sorted(pairs)).t().contiguous()
    return torch.tensor(x, dtype=torch.float32), edges, torch.tensor(y), torch.tensor(train)


class Net(torch.nn.Module):
    def __init__(self, kind, layers, width, heads, dropout, inputs, classes):
        super().__init__()
        self.kind, self.dropout = kind, dropout
        self.layers = torch.nn.ModuleList()
        for l in range(layers):
            last = l + 1 == layers
            out = classes if last else width
            if kind == "gcn":
                self.layers.append(GCNConv(inputs, out, cached=True))
                inputs = out
            else:
                options = {"heads": 1 if last else heads, "concat": not last, "dropout": dropout}
                if kind == "gat":
                    self.layers.append(GATConv(inputs, out, **options))
                else:
                    self.layers.append(GATv2Conv(inputs, out, share_weights=True, bias=False, **options))
                inputs = out * heads

    def forward(self, x, edges):
        for l, layer in enumerate(self.layers):
            if self.dropout:
                x = F.dropout(x, self.dropout, self.training)
            x = layer(x, edges)
            if l + 1 < len(self.layers):
                x = F.elu(x) if self.kind == "gat" else F.relu(x)
        return x


def run(row, data, threads, seconds):
    name, kind, layers, width, heads, dropout, optimiser, lr = row
    x, edges, y, train = data
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    net = Net(kind, layers, width, heads, dropout, x.shape[1], int(y.max()) + 1).train()
    make = torch.optim.Adam if optimiser == "adam" else torch.optim.SGD
    optimiser = make(net.parameters(), lr=lr, weight_decay=5e-4)
    loss = None

    def step():
        nonlocal loss
        optimiser.zero_grad()
        loss = F.cross_entropy(net(x, edges)[train], y[train])
        loss.backward()
        optimiser.step()

    ms = time_steps(step, 20, seconds)
    line = {"who": "pyg", "dataset": "cora", "row": name, "threads": threads, **ms, "loss": loss.item()}
    print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with the files ind.cora.*, or one with planetoid/ in it")
    parser.add_argument("--threads", default="1,4")
    parser.add_argument("--row", default="", help="rows, with commas; all without it")
    parser.add_argument("--seconds", type=float, default=2.0)
    args = parser.parse_args()
    data = cora(args.data)
    for threads in map(int, args.threads.split(",")):
        for row in ROWS:
            if not args.row or row[0] in args.row.split(","):
                run(row, data, threads, args.seconds)


if __name__ == "__main__":
    main()
