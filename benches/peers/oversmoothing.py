"""The graph network of ContraNorm's published code in PyTorch, on Cora: test accuracy after the last epoch on
all nodes that neither train nor validate, one JSON object per run; see papers/docs/oversmoothing.md.

It is written after the published code (`gnn/` of PKU-ML/ContraNorm), with its settings: dropout, (A x) W + b,
ContraNorm without neighbours, one LayerNorm for all layers, ReLU; Adam 0.005, weight decay 5e-4, 200 epochs.
The products of n x n allocate much memory per step: with MALLOC_MMAP_THRESHOLD_=4000000000 and
MALLOC_TRIM_THRESHOLD_=8000000000 in the environment it is reused, and a step takes a third of the time.
"""

import argparse
import json
import math
import time

import torch
import torch.nn.functional as F
from pyg import cora


class Layer(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        bound = 1 / math.sqrt(outputs)
        self.weight = torch.nn.Parameter(torch.empty(inputs, outputs).uniform_(-bound, bound))
        self.bias = torch.nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))

    def forward(self, x, adjacency):
        return torch.sparse.mm(adjacency, x) @ self.weight + self.bias


class Net(torch.nn.Module):
    def __init__(self, inputs, classes, layers, width, dropout, s, linked):
        super().__init__()
        sizes = [inputs] + [width] * (layers - 1) + [classes]
        self.layers = torch.nn.ModuleList(Layer(a, b) for a, b in zip(sizes, sizes[1:]))
        self.norm, self.dropout, self.s, self.linked = torch.nn.LayerNorm(width), dropout, s, linked

    def contra(self, x):
        rows = F.normalize(x, dim=1)
        p = (rows @ rows.t()).masked_fill(self.linked, -torch.inf).softmax(1)
        return (1 + self.s) * x - self.s * (p @ x)

    def forward(self, x, adjacency):
        for l, layer in enumerate(self.layers):
            x = layer(F.dropout(x, self.dropout, self.training), adjacency)
            if l + 1 < len(self.layers):
                x = F.relu(self.norm(self.contra(x)))
        return x


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--s", type=float, default=0.8)
    parser.add_argument("--seed", type=int, action="append")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    x, edges, y, train = cora(options.data)
    n = len(y)
    linked = torch.eye(n)
    linked[edges[0], edges[1]] = 1
    adjacency = (linked / linked.sum(1, keepdim=True)).to_sparse_csr()
    first = int(train.sum())
    tested = torch.arange(n) >= first + 500
    for seed in options.seed or [0]:
        torch.manual_seed(seed)
        net = Net(x.shape[1], int(y.max()) + 1, options.layers, 32, 0.6, options.s, linked.bool())
        adam = torch.optim.Adam(net.parameters(), lr=0.005, weight_decay=5e-4)
        start = time.time()
        for _ in range(options.epochs):
            net.train()
            adam.zero_grad()
            loss = F.cross_entropy(net(x, adjacency)[train], y[train])
            loss.backward()
            adam.step()
        net.eval()
        with torch.no_grad():
            right = (net(x, adjacency).argmax(1) == y)[tested]
        line = {"who": "pytorch", "dataset": "cora", "layers": options.layers, "s": options.s, "seed": seed}
        line |= {"tested": int(tested.sum()), "last_test_acc": right.float().mean().item()}
        line |= {"final_loss": loss.item(), "seconds": round(time.time() - start, 1)}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
