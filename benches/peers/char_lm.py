"""Trains the laptop recipe of `papers -- char_lm` in PyTorch and in `emmy`, in turns; see README.md.

Both sides train 4 layers of width 128 with 4 heads on tiny Shakespeare, 12 windows of 64 characters per step, with
AdamW, and are evaluated on the whole of the validation text, window by window. The printed times are the median of a
step without evaluations.
"""

import argparse
import json
import math
import pathlib
import subprocess
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

    def forward(self, x):
        b, t, _ = x.shape
        qkv = self.qkv(self.norm1(x)).split(WIDTH, dim=2)
        q, k, v = (z.view(b, t, HEADS, WIDTH // HEADS).transpose(1, 2) for z in qkv)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
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

    def forward(self, symbols):
        x = self.tokens(symbols) + self.positions.weight[: symbols.shape[1]]
        for block in self.blocks:
            x = block(x)
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


def emmy(data, seed, steps, threads):
    command = ["cargo", "run", "-q", "--profile", "bench", "-p", "papers", "--", "char_lm", "--data", str(data), "--json"]
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
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    subprocess.run(["cargo", "build", "-q", "--profile", "bench", "-p", "papers"], check=True, cwd=ROOT)
    data = args.data.resolve()
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
