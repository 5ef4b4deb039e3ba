"""Milliseconds that dense work takes in PyTorch, row by row as `dense.rs` does it; see README.md."""

import argparse
import json

import torch
import torch.nn.functional as F
from steps import forget_peak, resident, time_steps
from torch import nn

# Numbers of the sequences; `dense.rs` has the same. Inputs count from 0, weights from WEIGHTS.
COTANGENT, CHECK, WEIGHTS = 8, 9, 10


def numbers(shape, sequence, scale):
    """Numbers in (-scale, scale) that look random: the fractional parts of 10^4 sin(k + 0.37 sequence)."""
    k = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    x = 1e4 * torch.sin(k + 0.37 * sequence)
    return (scale * (2.0 * (x - x.floor()) - 1.0)).float().reshape(shape)


def check(x):
    """The norm of a result, and its inner product with fixed numbers."""
    x = x.detach().double()
    return [x.norm().item(), (x * numbers(x.shape, CHECK, 1.0)).sum().item()]


def differentiate(y, xs, c):
    """y, then the gradients of <y, c> with respect to the xs, for a fixed c."""
    return [y, *torch.autograd.grad(y, xs, c)]


def start(model):
    """Matrices start with entries up to 1/sqrt(in), biases at 0; gains start at 1, as they are."""
    with torch.no_grad():
        for k, (name, p) in enumerate(model.named_parameters()):
            if p.ndim == 2:
                p.copy_(numbers(p.shape, WEIGHTS + k, p.shape[1] ** -0.5))
            elif name.endswith("bias"):
                p.zero_()
    return model


def product(m, k, n):
    """a b, m x k times k x n, without a derivative."""
    a, b = numbers([m, k], 0, 1.0), numbers([k, n], 1, 1.0)
    return lambda: [a @ b]


def attend(q, k, v):
    """softmax(q k^T / sqrt(d)) v over the last two axes."""
    return (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1) @ v


def attend_by_distance(q, k, v):
    """softmax(-|q - k|^2 / sqrt(d)) v, the squares multiplied out."""
    squares = q.square().sum(-1, keepdim=True) + k.square().sum(-1).unsqueeze(-2)
    distances = squares - 2 * (q @ k.transpose(-2, -1))
    return (-distances / q.shape[-1] ** 0.5).softmax(-1) @ v


def attention(attend):
    """Attention with 8 heads, 1024 positions, width 64 per head: forward, and the gradients of q, k, v."""
    shape = [1, 8, 1024, 64]
    inputs = [numbers(shape, k, 1.0).requires_grad_() for k in range(3)]
    c = numbers(shape, COTANGENT, 1.0)
    return lambda: differentiate(attend(*inputs), inputs, c)


def layer_norm():
    """LayerNorm with gain and bias of 2048 rows: forward, and the gradients of x, gain and bias."""
    shape = [2048, 512]
    x, c = numbers(shape, 0, 1.0).requires_grad_(), numbers(shape, COTANGENT, 1.0)
    norm = nn.LayerNorm(512)
    return lambda: differentiate(norm(x), [x, *norm.parameters()], c)


def lstm():
    """A layer of long short-term memory, 12 sequences of 64 steps, width 128.

    Forward, and the gradients of x and of the weights.
    """
    shape = [12, 64, 128]
    x, c = numbers(shape, 0, 1.0).requires_grad_(), numbers(shape, COTANGENT, 1.0)
    layer = nn.LSTM(128, 128, batch_first=True)
    with torch.no_grad():
        for k, p in enumerate(layer.parameters()):
            p.copy_(numbers(p.shape, WEIGHTS + k, p.shape[1] ** -0.5) if p.ndim == 2 else torch.zeros_like(p))
    return lambda: differentiate(layer(x)[0], [x, *layer.parameters()], c)


def contranorm():
    """LayerNorm(H - softmax(H H^T) H / 2): forward, and the gradients of H, gain and bias."""
    nodes, width = 2708, 64
    # With larger numbers a row would attend to itself alone.
    h = numbers([nodes, width], 0, 0.5).requires_grad_()
    c = numbers([nodes, width], COTANGENT, 1.0)
    norm = nn.LayerNorm(width)

    def step():
        y = norm(h - 0.5 * ((h @ h.t()).softmax(-1) @ h))
        return differentiate(y, [h, *norm.parameters()], c)

    return step


class Block(nn.Module):
    """A transformer block with the norms before attention and feed-forward.

    The key has no bias: it would add the same to all scores of a row, which the softmax does not see.
    """

    HEADS = 8

    def __init__(self, width, hidden, attend):
        super().__init__()
        self.attend = attend
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.feed_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        batch, positions, _ = x.shape
        z = self.norm(x)
        layers = self.query, self.key, self.value
        q, k, v = (layer(z).reshape(batch, positions, self.HEADS, -1).transpose(1, 2) for layer in layers)
        heads = self.attend(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + self.out(heads)
        # The exact form, by the error function: PyTorch's default, and ours.
        return x + self.down(F.gelu(self.up(self.feed_norm(x)), approximate="none"))


def block(attend):
    """A block of width 512 with 8 heads and 2048 hidden neurons, on 8 sequences of 256 positions.

    Forward, and the gradients of the input and of all parameters.
    """
    shape = [8, 256, 512]
    x, c = numbers(shape, 0, 1.0).requires_grad_(), numbers(shape, COTANGENT, 1.0)
    model = start(Block(512, 2048, attend))
    return lambda: differentiate(model(x), [x, *model.parameters()], c)


def mlp():
    """A training step of a perceptron 784-512-512-10 with ReLU on 256 samples: cross-entropy and Adam.

    Its result is the loss.
    """
    x = numbers([256, 784], 0, 1.0)
    labels = 7 * torch.arange(256) % 10
    model = start(
        nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    )
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        adam.zero_grad()
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        adam.step()
        return [loss]

    return step


def chain():
    """333 times x <- max(x a + b, 0) on 8 x 8 numbers: forward, and the gradient of the first x."""
    shape = [8, 8]
    x, c = numbers(shape, 0, 1.0).requires_grad_(), numbers(shape, COTANGENT, 1.0)
    # Factors near 1, so that neither values nor gradients vanish.
    a, b = 1.0 + numbers(shape, 1, 0.01), numbers(shape, 2, 0.1)

    def step():
        y = x
        for _ in range(333):
            y = (y * a + b).relu()
        return differentiate(y, [x], c)

    return step


# The name of a row, the number of steps whose results are checked, and what makes the step.
ROWS = [
    ("product-1024x1024x1024", 1, lambda: product(1024, 1024, 1024)),
    ("product-2048x512x2048", 1, lambda: product(2048, 512, 2048)),
    ("product-2048x2048x2048", 1, lambda: product(2048, 2048, 2048)),
    ("attention-8x1024x64", 1, lambda: attention(attend)),
    ("attention-8x1024x64-fused", 1, lambda: attention(F.scaled_dot_product_attention)),
    ("l2-attention-8x1024x64", 1, lambda: attention(attend_by_distance)),
    ("layer-norm-2048x512", 1, layer_norm),
    ("lstm-12x64x128", 1, lstm),
    ("contranorm-2708x64", 1, contranorm),
    ("block-8x256x512", 1, lambda: block(attend)),
    ("block-8x256x512-fused", 1, lambda: block(F.scaled_dot_product_attention)),
    ("mlp-784-512-512-10", 10, mlp),
    ("chain-999", 1, chain),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", default="1,4")
    parser.add_argument("--row", default="", help="rows, with commas; all without it")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--memory", action="store_true", help="the peak memory of some steps of one row")
    args = parser.parse_args()
    for threads in map(int, args.threads.split(",")):
        torch.set_num_threads(threads)
        for name, checked, make in ROWS:
            if args.row and name not in args.row.split(","):
                continue
            before = resident("VmRSS")
            step = make()
            if args.memory:
                # The inputs are made in a wider format, whose memory does not count.
                forget_peak()
                for _ in range(3):
                    step()
                line = {"who": "pytorch", "row": name, "threads": threads, "mb": resident("VmHWM") - before}
                print(json.dumps(line), flush=True)
                continue
            checks = [check(x) for _ in range(checked) for x in step()]
            ms = time_steps(step, 10, args.seconds)
            line = {"who": "pytorch", "row": name, "threads": threads, **ms, "checks": checks}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
