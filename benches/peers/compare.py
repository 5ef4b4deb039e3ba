"""Runs PyTorch and `emmy` in turns, so that both see the same machine, and prints a table; see README.md."""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Callable, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# The allowed difference of two results, relative to their norm: above the rounding of `f32`, and below the
# difference that GELU by tanh instead of the error function makes in the block.
TOLERANCE = 1e-5


def lines(command, environment):
    """The JSON objects a command prints; its standard error stays visible and says why a command failed."""
    environment = {**os.environ, **environment}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


# Ten losses of burn differ from the others' by 1e-4. The likely reason, not measured: its Adam computes 1 - beta^t
# in 32 bits.
ROUNDED = {("burn", "mlp-784-512-512-10"): 1e-3}

# The ways in which `pyg.py` writes a network.
FORMS = ["usual", "compiled", "best", "best-compiled"]

# Vectors of 256 bits: in `emmy`, in PyTorch's own kernels, and in the products of its two libraries. Kernels that
# `torch.compile` keeps are in a folder of their own: with those of wider vectors a run ended with an index out
# of bounds.
NARROW = {
    "TORCHINDUCTOR_CACHE_DIR": os.path.join(tempfile.gettempdir(), "torchinductor-256"),
    "EMMY_VECTORS": "256",
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}


def sides(pytorch, others, threads):
    """The commands of a turn with additions to the environment: those of PyTorch, then the others.

    PyTorch's threads wait for each other by spinning. Where anything else wants a core, that makes a step many
    times slower; waiting passively costs little and does not. The better of the two counts.
    """
    policies = [{}, {"OMP_WAIT_POLICY": "passive"}] if int(threads) > 1 else [{}]
    return [*((command, policy) for command in pytorch for policy in policies), *((other, {}) for other in others)]


def measure(sides, rounds):
    """The best line of each side, by its minimum."""
    best = {}
    for _ in range(rounds):
        for command, environment in sides:
            for line in lines(command, environment):
                old = best.get(line["who"])
                if old is None or line["ms_min"] < old["ms_min"]:
                    best[line["who"]] = line
    return best


def difference(a, b):
    """The largest difference between the checks of two lines, relative to the norm of the result.

    It is infinite where nothing can be compared: results of another number, or that are not finite, or zero.
    """
    a, b = a["checks"], b["checks"]
    if len(a) != len(b) or not a:
        return math.inf
    largest = 0.0
    for ours, theirs in zip(a, b):
        norm = max(ours[0], theirs[0])
        if norm == 0 or not all(map(math.isfinite, [*ours, *theirs])):
            return math.inf
        largest = max([largest, *(abs(x - y) / norm for x, y in zip(ours, theirs))])
    return largest


def graph_line(best):
    """The columns of a training step on a graph."""
    forms = [best[f"pyg-{form}"] for form in FORMS]
    same_start(forms)
    usual, compiled, *best_forms = (form["ms_min"] for form in forms)
    e, floor = best["emmy"]["ms_min"], best["emmy"]["floor_ms"]
    opponent = min(usual, compiled, *best_forms)
    times = f"{usual:.2f} | {compiled:.2f} | {min(best_forms):.2f} | {e:.2f}"
    return f"{times} | {usual / e:.1f} | {opponent / e:.1f} | {floor:.2f} | {e / floor:.1f}"


def same_start(forms):
    """Ends the program if the forms of a network begin with different losses, although nothing is random."""
    first, *others = ([form["row"], form["first_loss"]] for form in forms)
    for row, loss in others:
        if "dropout" not in row and abs(loss - first[1]) > TOLERANCE * first[1]:
            sys.exit(f"{row}: the forms of one network begin with different losses, {first[1]} and {loss}")


def agreeing(peer, emmy):
    """The difference of the results of two sides; ends the program if they did not compute the same."""
    found = difference(peer, emmy)
    allowed = ROUNDED.get((peer["who"], peer.get("row")), TOLERANCE)
    if found > allowed:
        sys.exit(f"results differ by {found:.1e} of their norm, more than {allowed:.0e}:\n{peer}\n{emmy}")
    return found


def dense_line(best):
    """The columns of dense work."""
    peer, emmy = best["pytorch"], best["emmy"]
    found = agreeing(peer, emmy)
    (p, p_median), (e, e_median) = ((side["ms_min"], side["ms_median"]) for side in (peer, emmy))
    times = f"{p:.2f} | {p_median:.2f} | {e:.2f} | {e_median:.2f} | {e / p:.2f}"
    floor = f"{emmy['floor_ms']:.2f} | {100 * emmy['floor_ms'] / e:.0f} %"
    return f"{times} | {floor} | {memory(peer)} | {memory(emmy)} | {found:.0e}"


def memory(side):
    """Megabytes of a side, where its system tells."""
    return "unknown" if side["mb"] is None else f"{side['mb']:.0f}"


def other_line(name, best):
    """The columns of another framework, whose results are held against PyTorch's and ours."""
    if name not in best:
        return "| | | |"
    other, emmy = best[name], best["emmy"]
    found = max(agreeing(other, best["pytorch"]), agreeing(other, emmy))
    o, e = other["ms_min"], emmy["ms_min"]
    return f"{o:.2f} | {other['ms_median']:.2f} | {e / o:.2f} | {memory(other)} | {found:.0e}"


def other_command(name):
    """Builds the crate of another framework and returns the command that runs it."""
    # Beside our own build, where nobody looks for a workspace.
    folder = os.environ.get("PEERS_TARGET_DIR", str(ROOT / "target"))
    manifest = ["--manifest-path", str(HERE / name / "Cargo.toml"), "--target-dir", f"{folder}/{name}"]
    command = ["cargo", "run", "-q", "--release", *manifest, "--"]
    subprocess.run([*command, "--help"], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return command


class Set(NamedTuple):
    """Rows that are measured alike."""

    # The peer's script with its options, one list per form, and our bench.
    script: str
    forms: list[list[str]]
    bench: str
    # The name of each row on the peer's side and on ours.
    rows: list[tuple[str, str]]
    columns: list[str]
    line: Callable


def alike(*rows):
    """Rows with the same name on both sides."""
    return [(row, row) for row in rows]


# The rows of dense work that other frameworks have too; each has a crate of its own in a folder of its name.
PRODUCTS = ["product-1024x1024x1024", "product-2048x512x2048", "product-2048x2048x2048"]
OTHERS = {
    "candle": {*PRODUCTS, "block-8x256x512", "mlp-784-512-512-10"},
    "burn": {*PRODUCTS, "mlp-784-512-512-10", "chain-999"},
}


def other_columns(name):
    """The names of the columns of another framework."""
    return [f"{name} ms", "median", f"emmy / {name}", f"{name} MB", "difference"]


SETS = {
    "graphs": Set(
        "pyg.py",
        [["--form", form] for form in FORMS],
        "peers",
        alike(
            "gcn-2x16-dropout",
            "gcn-2x64",
            "gcn-10x64",
            "gat-2x8x8-dropout",
            "gat-2x8x8",
            "gat-10x8x8",
            "gatv2-2x64",
            "gatv2-10x64",
        ),
        [
            *("PyG ms", "compiled ms", "best ms", "emmy ms", "PyG / emmy", "best of all / emmy"),
            *("floor ms", "emmy / floor"),
        ],
        graph_line,
    ),
    "dense": Set(
        "dense.py",
        [[]],
        "peers_dense",
        [
            *alike("product-1024x1024x1024", "product-2048x512x2048", "product-2048x2048x2048"),
            *alike("attention-8x1024x64", "attention-8x1024x64-fused", "l2-attention-8x1024x64"),
            *alike("layer-norm-2048x512", "lstm-12x64x128", "contranorm-2708x64"),
            *alike("block-8x256x512", "block-8x256x512-fused", "mlp-784-512-512-10", "chain-999"),
        ],
        [
            *("PyTorch ms", "median", "emmy ms", "median", "emmy / PyTorch", "floor ms", "floor / emmy"),
            *("PyTorch MB", "emmy MB", "difference"),
        ],
        dense_line,
    ),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=SETS, default="graphs", help="training on graphs, or dense work")
    for name in OTHERS:
        parser.add_argument(f"--{name}", action="store_true", help=f"{name} as another side of dense work")
    parser.add_argument("--data", type=pathlib.Path, help="folder with Cora; the rows on graphs need it")
    parser.add_argument("--threads", default="1,4")
    parser.add_argument("--row", default="", help="rows, with commas; all without it")
    parser.add_argument("--rounds", type=int, default=3, help="turns; the best of each side counts")
    parser.add_argument("--seconds", default="1")
    parser.add_argument("--vectors", choices=["256"], help="vectors of 256 bits on both sides, as without AVX-512")
    args = parser.parse_args()
    chosen = SETS[args.set]
    if args.vectors:
        os.environ.update(NARROW)
    data = []
    if unknown := set(args.row.split(",")) - {"", *(theirs for theirs, _ in chosen.rows)}:
        parser.error(f"there is no row {', '.join(sorted(unknown))}; rows: {', '.join(theirs for theirs, _ in chosen.rows)}")
    if args.set == "graphs":
        if args.data is None:
            parser.error("the rows on graphs need --data")
        data = ["--data", str(args.data.resolve())]
    subprocess.run(["cargo", "bench", "--no-run", "--bench", chosen.bench], check=True, cwd=ROOT)
    emmy = ["cargo", "bench", "-q", "--bench", chosen.bench, "--"]
    peer = [sys.executable, str(HERE / chosen.script)]
    asked = [name for name in OTHERS if getattr(args, name)]
    if asked and args.set != "dense":
        parser.error(f"{asked[0]} has no rows on graphs")
    commands = {name: other_command(name) for name in asked}
    columns = [*chosen.columns, *(column for name in asked for column in other_columns(name))]
    print(f"| row | threads | {' | '.join(columns)} |")
    print(f"|---|---:|{'---:|' * len(columns)}")
    for threads in args.threads.split(","):
        options = [*data, "--threads", threads, "--seconds", args.seconds]
        for theirs, ours in chosen.rows:
            if args.row and theirs not in args.row.split(","):
                continue
            pytorch = [[*peer, *form, *options, "--row", theirs] for form in chosen.forms]
            others = [[*emmy, *options, "--row", ours]]
            for name, command in commands.items():
                if theirs in OTHERS[name]:
                    others.append([*command, *options, "--row", theirs])
            best = measure(sides(pytorch, others, threads), args.rounds)
            if args.set == "dense":
                for command in [*pytorch, *others]:
                    (line,) = lines([*command, "--memory"], {})
                    best[line["who"]]["mb"] = line["mb"]
            line = " | ".join([chosen.line(best), *(other_line(name, best) for name in asked)])
            print(f"| {theirs} | {threads} | {line} |", flush=True)


if __name__ == "__main__":
    main()
