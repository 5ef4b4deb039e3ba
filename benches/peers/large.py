"""Large graphs in PyTorch Geometric and in `emmy`, in turns; see README.md.

Forward and backward of a GCN propagation, y = A x with its norms, and of a GATv2 attention with one head, both 64
wide, on random graphs with ten edges per node. `emmy` is `cargo bench --bench scaling`. PyTorch Geometric computes
the propagation in the form of its layers, which gather and scatter, and as the product with a sparse matrix; its
attention has edges that are sorted by target.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import torch
from compare import lines, sides
from pyg import Product, best_edges, by_rows
from steps import time_steps
from torch_geometric.nn import GATv2Conv, GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

WIDTH = 64


def random_edges(nodes, pairs):
    """So many different pairs of nodes, in both directions."""
    generator = torch.Generator().manual_seed(1)
    found = torch.empty(0, dtype=torch.int64)
    while len(found) < pairs:
        a, b = torch.randint(nodes, (2, pairs), generator=generator)
        drawn = (torch.minimum(a, b) * nodes + torch.maximum(a, b))[a != b]
        found = torch.cat([found, drawn]).unique()
    found = found[torch.randperm(len(found), generator=generator)[:pairs]]
    a, b = found // nodes, found % nodes
    return torch.stack([torch.cat([a, b]), torch.cat([b, a])])


def milliseconds(layer, inputs, variables):
    """The least time of the layer and of the gradients of what is named."""

    def step():
        for variable in variables:
            variable.grad = None
        y = layer(*inputs)
        y.backward(y.detach())

    return time_steps(step, 5, 0.0)["ms_min"]


def single(edges, threads):
    torch.set_num_threads(threads)
    torch.manual_seed(2)
    nodes = edges // 10
    pairs = random_edges(nodes, edges // 2)
    x = torch.randn(nodes, WIDTH, requires_grad=True)
    usual = GCNConv(WIDTH, WIDTH, cached=True, bias=False)
    usual.lin = torch.nn.Identity()
    ms = {"gcn_usual": milliseconds(usual, (x, pairs), [x])}
    adjacency = by_rows(*gcn_norm(pairs, num_nodes=nodes), [nodes, nodes])
    ms["gcn_sparse"] = milliseconds(Product.apply, (adjacency, adjacency, x), [x])
    attention = GATv2Conv(WIDTH, WIDTH, share_weights=True, bias=False, add_self_loops=False)
    attention.lin_l = attention.lin_r = torch.nn.Identity()
    ms["gatv2"] = milliseconds(attention, (x, best_edges(pairs, nodes)), [x, attention.att])
    print(json.dumps({"who": "pyg", "edges": pairs.shape[1], **ms}), flush=True)


def least(command, threads, rounds):
    """The least of every time that the commands of both sides print, in turns."""
    best = {}
    for _ in range(rounds):
        for one, environment in sides([command["pyg"]], [command["emmy"]], threads):
            for line in lines(one, environment):
                for key, value in line.items():
                    if isinstance(value, float):
                        name = (line["who"], key)
                        best[name] = min(value, best.get(name, value))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", default="1000000,10000000")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=2, help="turns; the best of each side counts")
    parser.add_argument("--single", action="store_true", help="PyTorch Geometric alone, once, as JSON")
    args = parser.parse_args()
    if args.single:
        return single(int(args.edges), int(args.threads))
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    subprocess.run(["cargo", "bench", "--no-run", "--bench", "scaling"], check=True, cwd=root)
    print("| edges | threads | GCN: PyG ms | sparse ms | emmy ms | best / emmy | GATv2: PyG ms | emmy ms | PyG / emmy |")
    print(f"|---:|---:|{'---:|' * 7}")
    for threads in args.threads.split(","):
        for edges in args.edges.split(","):
            options = ["--edges", edges, "--threads", threads]
            commands = {
                "pyg": [sys.executable, __file__, "--single", *options],
                "emmy": ["cargo", "bench", "-q", "--bench", "scaling", "--", "--json", *options],
            }
            best = least(commands, threads, args.rounds)
            usual, sparse, gatv2 = (best["pyg", name] for name in ["gcn_usual", "gcn_sparse", "gatv2"])
            ours, attention = best["emmy", "gcn_ms"], best["emmy", "gatv2_ms"]
            gcn = f"{usual:.0f} | {sparse:.0f} | {ours:.1f} | {min(usual, sparse) / ours:.1f}"
            print(f"| {edges} | {threads} | {gcn} | {gatv2:.0f} | {attention:.1f} | {gatv2 / attention:.1f} |", flush=True)


if __name__ == "__main__":
    main()
