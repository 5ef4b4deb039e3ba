"""Trains the laptop recipe of `papers -- char_lm` in PyTorch and in `emmy`, in turns; see README.md.

Both sides train 4 layers of width 128 with 4 heads on tiny Shakespeare, 12 windows of 64 characters per step, with
AdamW, and are evaluated on the whole of the validation text, window by window. The printed times are the median of a
step without evaluations. With `--write` the two sides write a text, one character after the other.
"""

import argparse
import json
import math
import pathlib
import re
import subprocess
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 4, 4, 128, 64, 12


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH, bias=False) for _ in range(2))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x, cache=None):
        """With a cache, a dictionary, the keys and values that it holds come first, and the new ones are added to it."""
        b, t, _ = x.shape
        qkv = self.qkv(self.norm1(x)).split(WIDTH, dim=2)
        q, k, v = (z.view(b, t, HEADS, WIDTH // HEADS).transpose(1, 2) for z in qkv)
        if cache:
            k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
        # A character behind a cache sees all keys; several are the first of their window.
        y = F.scaled_dot_product_attention(q, k, v, is_causal=not cache)
        if cache is not None:
            cache.update(k=k, v=v)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    """The form of GPT-2 without biases, its output tied to its table of symbols."""

    def __init__(self, symbols):
        super().__init__()
        self.tokens = nn.Embedding(symbols, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                adds = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * LAYERS) if adds else 0.02)

    def forward(self, symbols, caches=None, start=0):
        x = self.tokens(symbols) + self.positions.weight[start : start + symbols.shape[1]]
        for block, cache in zip(self.blocks, caches or [None] * LAYERS):
            x = block(x, cache)
        return F.linear(self.norm(x), self.tokens.weight)


def loss(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


@torch.no_grad()
def whole_loss(model, text):
    """The mean over all windows side by side, without what remains behind them."""
    count = (len(text) - 1) // CONTEXT
    x, y = (text[k : k + count * CONTEXT].view(count, CONTEXT) for k in (0, 1))
    parts = [loss(model, a, b) * len(a) for a, b in zip(x.split(256), y.split(256))]
    return sum(parts).item() / count


def pytorch(path, seed, steps):
    torch.manual_seed(seed)
    text = path.read_text()
    symbols = sorted(set(text))
    numbers = torch.tensor([symbols.index(c) for c in text])
    cut = len(numbers) * 9 // 10
    train, validation = numbers[:cut], numbers[cut:]
    model = Model(len(symbols))
    matrices = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99))
    warm_up = max(1, min(100, steps // 10))
    times = []
    for step in range(steps):
        start = time.perf_counter()
        if step < warm_up:
            factor = (step + 1) / warm_up
        else:
            factor = 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * factor
        places = torch.randint(len(train) - CONTEXT, (BATCH,))
        x = torch.stack([train[i : i + CONTEXT] for i in places])
        y = torch.stack([train[i + 1 : i + 1 + CONTEXT] for i in places])
        optimiser.zero_grad()
        loss(model, x, y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        times.append(time.perf_counter() - start)
    parameters = sum(p.numel() for p in model.parameters())
    return {"parameters": parameters, "ms": 1e3 * sorted(times)[steps // 2], "val_loss": whole_loss(model, validation)}


def drawn(logits):
    """A character of the 40 most likely ones, at the temperature 0.8."""
    values, places = (logits / 0.8).topk(40)
    return places[torch.multinomial(values.softmax(0), 1)]


@torch.no_grad()
def write(model, count, cached):
    """Characters per second. Without a cache each character reads its window anew, as nanoGPT does; with one, a full
    window is read anew from its middle on."""
    model.eval()
    text, first, read_to, start = torch.zeros(1, dtype=torch.int64), 0, 0, time.perf_counter()
    caches = [{} for _ in range(LAYERS)]
    for _ in range(count):
        if not cached:
            logits = model(text[None, -CONTEXT:])
        else:
            if len(text) - first > CONTEXT:
                first = read_to = len(text) - CONTEXT // 2
                caches = [{} for _ in range(LAYERS)]
            logits = model(text[None, read_to:], caches, read_to - first)
            read_to = len(text)
        text = torch.cat([text, drawn(logits[0, -1])])
    return count / (time.perf_counter() - start)


CHAR_LM = ["cargo", "run", "-q", "--profile", "bench", "-p", "papers", "--", "char_lm"]


def writing(data, count, threads, rounds):
    """Prints the most characters per second of each side, in turns."""
    symbols = len(set((data / "tinyshakespeare" / "input.txt").read_text()))
    best = [0.0, 0.0, 0.0]
    with tempfile.TemporaryDirectory() as folder:
        # How fast a model writes does not depend on how long it was trained.
        checkpoint = ["--threads", str(threads), "--figures", "none"]
        train = [*CHAR_LM, "--data", str(data), "--steps", "2", "--sample", "1", "--save", f"{folder}/model", *checkpoint]
        subprocess.run(train, check=True, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(rounds):
            paces = [write(Model(symbols), count, cached) for cached in (False, True)]
            sizes = {"layers": LAYERS, "heads": HEADS, "width": WIDTH, "context": CONTEXT}
            options = {**sizes, "load": f"{folder}/model", "sample": count, "top-k": 40, "threads": threads}
            command = [*CHAR_LM, *(part for name, value in options.items() for part in (f"--{name}", str(value)))]
            done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
            paces.append(float(re.search(r"(\d+) characters per second", done.stderr)[1]))
            best = [max(pair) for pair in zip(best, paces)]
    print("| threads | PyTorch, window anew | PyTorch, cache | emmy, cache | emmy / the faster |\n|---:|---:|---:|---:|---:|")
    print(f"| {threads} | {best[0]:.0f} | {best[1]:.0f} | {best[2]:.0f} | {best[2] / max(best[:2]):.1f} |")


def emmy(data, seed, steps, threads):
    command = [*CHAR_LM, "--data", str(data), "--json"]
    command += ["--seed", str(seed), "--steps", str(steps), "--threads", str(threads), "--figures", "none"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    summary = json.loads(done.stdout.splitlines()[-1])
    return {"parameters": summary["parameters"], "ms": summary["ms_per_step"], "val_loss": summary["val_loss"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder with tinyshakespeare/input.txt")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--write", type=int, metavar="COUNT", help="write so many characters in place of training")
    parser.add_argument("--rounds", type=int, default=3, help="turns of --write; the best of each side counts")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    subprocess.run(["cargo", "build", "-q", "--profile", "bench", "-p", "papers"], check=True, cwd=ROOT)
    data = args.data.resolve()
    if args.write:
        return writing(data, args.write, args.threads, args.rounds)
    print("| seed | parameters | PyTorch ms per step | emmy ms per step | emmy / PyTorch | PyTorch loss | emmy loss |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    losses = []
    for seed in range(args.seeds):
        p = pytorch(data / "tinyshakespeare" / "input.txt", seed, args.steps)
        e = emmy(data, seed, args.steps, args.threads)
        assert p["parameters"] == e["parameters"], (p, e)
        losses.append((p["val_loss"], e["val_loss"]))
        row = f"| {seed} | {e['parameters']} | {p['ms']:.1f} | {e['ms']:.1f} | {e['ms'] / p['ms']:.2f}"
        print(f"{row} | {p['val_loss']:.3f} | {e['val_loss']:.3f} |", flush=True)
    means = [sum(side) / len(side) for side in zip(*losses)]
    print(f"| mean | | | | | {means[0]:.3f} | {means[1]:.3f} |")


if __name__ == "__main__":
    main()
