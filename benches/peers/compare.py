"""Runs `pyg.py` and the bench `peers` in turns, so that both see the same machine, and prints a table; see README.md."""

import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROWS = [
    "gcn-2x16-dropout",
    "gcn-2x64",
    "gcn-10x64",
    "gat-2x8x8-dropout",
    "gat-2x8x8",
    "gat-10x8x8",
    "gatv2-2x64",
    "gatv2-10x64",
]


def lines(command, environment):
    """The JSON objects a command prints; what it says on standard error is seen, so that a failure has a reason."""
    environment = {**os.environ, **environment}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=HERE.parent.parent, env=environment)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def sides(pyg, emmy, threads):
    """What runs in a turn: commands with additions to the environment.

    PyTorch's threads wait for each other by spinning. Where anything else wants a core, that makes a step many times
    slower; waiting passively costs little and does not. The better of the two counts.
    """
    passive = [(pyg, {"OMP_WAIT_POLICY": "passive"})] if int(threads) > 1 else []
    return [(pyg, {}), *passive, (emmy, {})]


def measure(sides, options, rounds):
    """The best line of each side, by its minimum."""
    best = {}
    for _ in range(rounds):
        for command, environment in sides:
            for line in lines(command + options, environment):
                old = best.get(line["who"])
                if old is None or line["ms_min"] < old["ms_min"]:
                    best[line["who"]] = line
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--threads", default="1,4")
    parser.add_argument("--rounds", type=int, default=3, help="turns; the best of each side counts")
    parser.add_argument("--seconds", default="1")
    args = parser.parse_args()
    data = str(args.data.resolve())
    subprocess.run(["cargo", "build", "--release", "--bench", "peers"], check=True, cwd=HERE.parent.parent)
    emmy = ["cargo", "bench", "-q", "--bench", "peers", "--"]
    pyg = [sys.executable, str(HERE / "pyg.py")]
    print("| row | threads | PyG ms | emmy ms | PyG / emmy | floor ms | emmy / floor |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for threads in args.threads.split(","):
        for row in ROWS:
            options = ["--data", data, "--threads", threads, "--row", row, "--seconds", args.seconds]
            best = measure(sides(pyg, emmy, threads), options, args.rounds)
            p, e = best["pyg"]["ms_min"], best["emmy"]["ms_min"]
            floor = best["emmy"]["floor_ms"]
            print(f"| {row} | {threads} | {p:.2f} | {e:.2f} | {p / e:.1f} | {floor:.2f} | {e / floor:.1f} |", flush=True)


if __name__ == "__main__":
    main()
