"""A whole training of "Are GATs Out of Balance?" on both sides, evaluation included; see README.md.

GATv2 with shared weights, width 64, no biases, gradient descent, full batch. PyTorch Geometric is timed twice: evaluating after every
step as the paper's published code does, and with the trick `emmy` uses, where without dropout the forward pass of an epoch is the
evaluation of the epoch before. `emmy` also holds every epoch against the conservation laws.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent


def pyg(args):
    """Seconds of the training in this process."""
    import torch
    import torch.nn.functional as F
    from pyg import Net, cora

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    x, edges, y, train = cora(args.data)
    nodes = len(y)
    validate = torch.zeros(nodes, dtype=torch.bool)
    validate[140:640] = True
    test = torch.zeros(nodes, dtype=torch.bool)
    test[-1000:] = True
    net = Net("gatv2", args.layers, 64, 1, 0.0, x.shape[1], int(y.max()) + 1)
    initialise(net, args.init)
    optimiser = torch.optim.SGD(net.parameters(), lr=args.lr)

    def evaluate(logits):
        right = logits.argmax(1) == y
        return [right[mask].float().mean().item() for mask in (train, validate, test)]

    best = {"val_acc": -1.0}
    start = time.perf_counter()
    for epoch in range(1, args.epochs + 1):
        net.train()
        optimiser.zero_grad()
        logits = net(x, edges)
        loss = F.cross_entropy(logits[train], y[train])
        loss.backward()
        optimiser.step()
        if args.evaluate == "again":
            net.eval()
            with torch.no_grad():
                logits = net(x, edges)
        # Logits from before the step are the evaluation of the epoch before.
        _, val_acc, test_acc = evaluate(logits)
        if val_acc > best["val_acc"]:
            best = {"val_acc": val_acc, "test_acc": test_acc, "best_epoch": epoch - (args.evaluate == "reuse")}
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "final_loss": loss.item(), **best}))


def initialise(net, init):
    """Xavier normal, or looks-linear orthogonal balanced from the first layer on with squared row norms of 2 and no attention."""
    import torch

    weights = [layer.lin_l.weight for layer in net.layers]
    with torch.no_grad():
        for l, (layer, w) in enumerate(zip(net.layers, weights)):
            if init == "xavier":
                torch.nn.init.xavier_normal_(w)
                torch.nn.init.xavier_normal_(layer.att)
                continue
            torch.nn.init.zeros_(layer.att)
            out, inputs = w.shape
            first, last = l == 0, l + 1 == len(weights)
            d = torch.empty(out if last else out // 2, inputs if first else inputs // 2)
            torch.nn.init.orthogonal_(d)
            d = d if first else torch.cat([d, -d], 1)
            w.copy_(d if last else torch.cat([d, -d], 0))
            if first:
                w.mul_(2**0.5 / w.norm(dim=1, keepdim=True))
            else:
                w.mul_(weights[l - 1].norm(dim=1) / w.norm(dim=0))


def emmy(args):
    """Seconds of the same training by `papers -- balance`."""
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder) / "results.jsonl"
        command = ["cargo", "run", "-q", "--profile", "bench", "-p", "papers", "--", "balance", "--data", str(args.data.resolve())]
        command += ["--dataset", "cora", "--layers", str(args.layers), "--init", args.init, "--seeds", "1"]
        command += ["--epochs", str(args.epochs), "--loss-threshold", "0", "--lr", str(args.lr)]
        command += ["--jobs", "1", "--threads", str(args.threads)]
        command += ["--results", str(results), "--out", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=HERE.parent.parent)
        return json.loads(results.read_text())


def other(args, evaluate, environment):
    """`pyg` in a process of its own."""
    command = [sys.executable, __file__, "--data", str(args.data), "--layers", str(args.layers), "--lr", str(args.lr)]
    command += ["--epochs", str(args.epochs), "--threads", str(args.threads), "--evaluate", evaluate, "--init", args.init]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--epochs", type=int, default=5000)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--init", choices=["xavier", "bal-o"], default="bal-o")
    parser.add_argument("--evaluate", choices=["again", "reuse"], help="run PyTorch Geometric alone, once")
    parser.add_argument("--seed", type=int, default=0, help="of PyTorch Geometric with --evaluate")
    args = parser.parse_args()
    if args.evaluate:
        return pyg(args)
    ours = emmy(args)
    # Which way of waiting suits PyTorch's threads depends on the machine: a short run of each decides.
    waiting = [{}, {"OMP_WAIT_POLICY": "passive"}] if args.threads > 1 else [{}]
    short = argparse.Namespace(**{**vars(args), "epochs": min(100, args.epochs)})
    environment = min(waiting, key=lambda environment: other(short, "reuse", environment)["seconds"])
    reuse, again = (other(args, how, environment) for how in ("reuse", "again"))
    for name, line in [("emmy", ours), ("PyG, one forward pass an epoch", reuse), ("PyG, two", again)]:
        print(f"{name}: {line['seconds']:.1f} s, {line['seconds'] / ours['seconds']:.1f} times emmy's; test accuracy {line['test_acc']:.3f}", end=" ")
        print(f"at the best validation epoch, {line['best_epoch']}; loss at the end {line['final_loss']:.2g}")


if __name__ == "__main__":
    main()
