"""Runs ContraNorm's published program for graphs, on a CPU and with today's packages: accuracy of each of its
five runs after the last epoch, one JSON object per run; see papers/docs/oversmoothing.md.

    git clone https://github.com/PKU-ML/ContraNorm
    python benches/peers/oversmoothing.py --repository ContraNorm -- --data cora --nlayer 16 \
        --norm_mode CN --norm_scale 1.0 --use_layer_norm --hid 32 --epochs 200

What follows `--` are the arguments of that program (`gnn/main.py`); its data sets are in the repository. It
needs a GPU and three packages that this network does not use. Here `.cuda()` does nothing, these packages are
empty, and a seed is set; the rest is the published code.

ContraNorm's products of n x n allocate much memory per step: with MALLOC_MMAP_THRESHOLD_=4000000000 and
MALLOC_TRIM_THRESHOLD_=8000000000 in the environment it is used again.
"""

import argparse
import json
import os
import runpy
import shutil
import sys
import time
import types

import torch


UNUSED = {
    "einops": ["rearrange"],
    "torch_scatter": ["scatter_max", "scatter_add"],
    "torch_sparse": ["spmm", "matmul"],
}


def without_gpu():
    torch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *_, **__: self
    for name, functions in UNUSED.items():
        module = types.ModuleType(name)
        for function in functions:
            setattr(module, function, None)
        sys.modules[name] = module


def told(options):
    """Wraps the program's steps: its last training loss, and a line per test."""
    import utils

    train, test, start, last = utils.train, utils.test, time.perf_counter(), {}

    def training(*arguments, **named):
        result = train(*arguments, **named)
        last["train_loss"] = result[0].item()
        return result

    def testing(*arguments):
        result = test(*arguments)
        outcome = {"arguments": options.program, "seed": options.seed, "test_acc": 100 * result[1].item()}
        print(json.dumps(outcome | last | {"seconds": round(time.perf_counter() - start)}), flush=True)
        return result

    utils.train, utils.test = training, testing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", required=True, help="folder with PKU-ML/ContraNorm")
    parser.add_argument("--seed", type=int, default=0, help="of the five runs together, which go on with its numbers")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("program", nargs="*", help="arguments of gnn/main.py, after --")
    options = parser.parse_args()
    folder = os.path.join(options.repository, "gnn")
    if not os.path.exists(os.path.join(folder, "main.py")):
        parser.error(f"{folder} has no main.py: it is not a copy of PKU-ML/ContraNorm")
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    without_gpu()
    os.chdir(folder)
    # Graphs that another version of PyTorch Geometric prepared are not readable by this one.
    shutil.rmtree("data/citeseer/processed", ignore_errors=True)
    # It also looks for two of them one folder deeper.
    for graph in ["chameleon", "squirrel"]:
        if not os.path.exists(f"data/{graph}/geom_gcn"):
            os.symlink(".", f"data/{graph}/geom_gcn")
    sys.path.insert(0, os.getcwd())
    sys.argv = ["main.py", *options.program]
    told(options)
    runpy.run_path("main.py", run_name="__main__")


if __name__ == "__main__":
    main()
