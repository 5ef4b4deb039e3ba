"""Milliseconds a training step takes in PyTorch Geometric, row by row as `emmy.rs` does it; see README.md.

`--form` chooses how the network is written:

- `usual`: as the documentation of PyTorch Geometric writes it;
- `compiled`: the same through `torch.compile`;
- `best`: the features are a sparse matrix, the adjacency of a GCN is a sparse matrix with its norms, and the
  self-loops of a GAT are added once, not in each step; the optimiser is fused;
- `best-compiled`: the last through `torch.compile`.
"""

import argparse
import json
import pathlib
import pickle

import numpy as np
import torch
import torch.nn.functional as F
from steps import time_steps
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_self_loops

FORMS = ["usual", "compiled", "best", "best-compiled"]

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


class Product(torch.autograd.Function):
    """A B of a sparse matrix A without a gradient; the adjoint of B is the product with its transpose."""

    @staticmethod
    def forward(ctx, matrix, transposed, b):
        ctx.transposed = transposed
        return matrix @ b

    @staticmethod
    def backward(ctx, g):
        return None, None, ctx.transposed @ g


def by_rows(places, values, shape):
    """The sparse matrix with these entries, by rows."""
    return torch.sparse_coo_tensor(places, values, shape).coalesce().to_sparse_csr()


def with_values(matrix, values):
    """A sparse matrix with the places of another."""
    return torch.sparse_csr_tensor(matrix.crow_indices(), matrix.col_indices(), values, matrix.shape)


class Features:
    """Features as a sparse matrix, and its transpose."""

    def __init__(self, x):
        places = x.nonzero().t()
        self.matrix = by_rows(places, x[*places], x.shape)
        # Entry k of the transpose is entry `order[k]` of the matrix.
        numbers = torch.arange(1.0, places.shape[1] + 1)
        transposed = by_rows(places.flip(0), numbers, x.shape[::-1])
        self.order = transposed.values().long() - 1
        self.transposed = with_values(transposed, self.matrix.values()[self.order])

    def times(self, weight, dropout):
        """The product with a weight, after dropout, which leaves zeros as they are."""
        if not dropout:
            return Product.apply(self.matrix, self.transposed, weight)
        values = F.dropout(self.matrix.values(), dropout)
        matrix, transposed = with_values(self.matrix, values), with_values(self.transposed, values[self.order])
        return Product.apply(matrix, transposed, weight)


class SparseGcn(torch.nn.Module):
    """A layer of a GCN, with the adjacency and its norms as one sparse matrix, which is symmetric."""

    def __init__(self, inputs, out):
        super().__init__()
        layer = GCNConv(inputs, out)
        self.lin, self.bias = layer.lin, layer.bias

    def forward(self, x, adjacency):
        return Product.apply(adjacency, adjacency, self.lin(x)) + self.bias


class Net(torch.nn.Module):
    def __init__(self, kind, layers, width, heads, dropout, inputs, classes, best):
        super().__init__()
        self.kind, self.dropout = kind, dropout
        self.layers, self.first = torch.nn.ModuleList(), None
        for l in range(layers):
            last = l + 1 == layers
            out = classes if last else width
            if kind == "gcn":
                self.layers.append(SparseGcn(inputs, out) if best else GCNConv(inputs, out, cached=True))
                inputs = out
            else:
                options = {"heads": 1 if last else heads, "concat": not last, "dropout": dropout}
                options["add_self_loops"] = not best
                if kind == "gat":
                    self.layers.append(GATConv(inputs, out, **options))
                else:
                    self.layers.append(GATv2Conv(inputs, out, share_weights=True, bias=False, **options))
                inputs = out * heads
        if best:
            # The linear map of the first layer is the product of sparse features with its weight.
            first = self.layers[0]
            self.first = (first.lin_l if kind == "gatv2" else first.lin).weight
            for name in ["lin_l", "lin_r"] if kind == "gatv2" else ["lin"]:
                setattr(first, name, torch.nn.Identity())

    def forward(self, x, edges):
        if self.first is not None:
            x = x.times(self.first.t(), self.dropout)
        for l, layer in enumerate(self.layers):
            if self.dropout and (self.first is None or l > 0):
                x = F.dropout(x, self.dropout, self.training)
            x = layer(x, edges)
            if l + 1 < len(self.layers):
                x = F.elu(x) if self.kind == "gat" else F.relu(x)
        return x


def best_inputs(kind, x, edges):
    """Sparse features, and what the layers read: the adjacency of a GCN, or edges with self-loops."""
    nodes = len(x)
    if kind == "gcn":
        places, norms = gcn_norm(edges, num_nodes=nodes)
        return Features(x), by_rows(places, norms, [nodes, nodes])
    return Features(x), best_edges(edges, nodes)


def best_edges(edges, nodes):
    """Edges with self-loops, sorted by target."""
    edges, _ = add_self_loops(edges, num_nodes=nodes)
    return edges[:, edges[1].argsort(stable=True)]


def run(row, data, form, threads, seconds):
    name, kind, layers, width, heads, dropout, optimiser, lr = row
    x, edges, y, train = data
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    best = form.startswith("best")
    net = Net(kind, layers, width, heads, dropout, x.shape[1], int(y.max()) + 1, best).train()
    make = torch.optim.Adam if optimiser == "adam" else torch.optim.SGD
    optimiser = make(net.parameters(), lr=lr, weight_decay=5e-4, fused=best)
    if best:
        x, edges = best_inputs(kind, x, edges)
    called = torch.compile(net) if form.endswith("compiled") else net
    loss = None

    def step():
        nonlocal loss
        optimiser.zero_grad()
        loss = F.cross_entropy(called(x, edges)[train], y[train])
        loss.backward()
        optimiser.step()

    step()
    first = loss.item()
    ms = time_steps(step, 20, seconds)
    losses = {"first_loss": first, "loss": loss.item()}
    line = {"who": f"pyg-{form}", "dataset": "cora", "row": name, "threads": threads, **ms, **losses}
    print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with the files ind.cora.*, or one with planetoid/ in it")
    parser.add_argument("--threads", default="1,4")
    parser.add_argument("--row", default="", help="rows, with commas; all without it")
    parser.add_argument("--form", choices=FORMS, default="usual", help="how the network is written")
    parser.add_argument("--seconds", type=float, default=2.0)
    args = parser.parse_args()
    data = cora(args.data)
    for threads in map(int, args.threads.split(",")):
        for row in ROWS:
            if not args.row or row[0] in args.row.split(","):
                run(row, data, args.form, threads, args.seconds)


if __name__ == "__main__":
    main()
