"""Verifies a certificate of emmy's with NumPy alone: python docs/verify.py WEIGHTS CERTIFICATE [OUTPUT]

The chain W_l s(... s(W_1 x)) is L-Lipschitz in the 2-norm if P is positive definite (docs/lipschitz.md). The
Cholesky factorisation runs to its end on P minus a margin for all its rounding errors (Rump, BIT 46, 2006).
"""
import hashlib, json, re, struct, sys
import numpy as np

def chain(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    names = sorted((n for n in header if n.endswith("weight")), key=lambda n: int(re.sub(r"\D", "", n) or 0))
    kinds = {"F64": "<f8", "F32": "<f4"}
    def tensor(entry):
        first, end = entry["data_offsets"]
        return np.frombuffer(data[8 + size + first:8 + size + end], kinds[entry["dtype"]]).reshape(entry["shape"])
    return [tensor(header[n]).astype(float) for n in names]

w = chain(sys.argv[1])
if len(sys.argv) > 3:
    w[-1] = w[-1][int(sys.argv[3]):][:1]
c = json.load(open(sys.argv[2]))
digest = hashlib.sha256()
for k, a in enumerate(w):
    digest.update(struct.pack("<3Q", k, *a.shape) + a.astype("<f8").tobytes())
assert c["norm"] == 2 and c["weights"] == digest.hexdigest(), "a certificate of other weights"

start = np.cumsum([0, w[0].shape[1]] + [len(a) for a in w])
p, sizes = np.zeros((2, start[-1], start[-1]))
block = lambda k: slice(start[k], start[k + 1])
def add(i, j, x, size):
    p[block(i), block(j)] += x
    sizes[block(i), block(j)] += size
add(0, 0, np.eye(start[1]), np.eye(start[1]))
# A product may be too small for a number. The factors behind it make this error larger.
tiny = 4 * np.finfo(float).tiny
for k, a in enumerate(w[:-1]):
    (low, high), m = np.array(c["slopes"][k]).T, np.array(c["multipliers"][k])
    assert (m > 0).all() and (low <= high).all() and len(m) == len(a)
    middle, product = -(0.5 * (low + high) * m)[:, None] * a, (low * high * m)[:, None] * a
    add(k + 1, k + 1, np.diag(m), np.diag(m))
    behind = tiny * (m + 1)[:, None] * (abs(a) + 1)
    add(k + 1, k, middle, abs(middle) + behind)
    add(k, k, a.T @ product, abs(a).T @ abs(product) + (abs(a) + 1).T @ behind)
tau = np.nextafter(c["lipschitz"] ** 2, 0) * np.eye(len(w[-1]))
add(len(w), len(w), tau, tau)
add(len(w), len(w) - 1, w[-1], abs(w[-1]))

scale = np.exp2(np.round(-0.5 * np.log2(np.diag(p))))
p, sizes = (np.tril(x) + np.tril(x, -1).T for x in (p * np.outer(scale, scale), sizes * np.outer(scale, scale)))
first = [np.flatnonzero(row)[0] for row in p]
n, unit, root = max(np.arange(1, len(p) + 1) - first) + 8, 2.0 ** -53, np.sqrt(np.diag(p))
inside = np.array([np.arange(len(p)) >= j for j in first])
wrong = 2 * n * sizes + n / (1 - 2 * n * unit) * np.outer(root, root) * (inside & inside.T)
margin = 2 * unit * (wrong.sum(1).max() + 8)
try:
    np.linalg.cholesky(p - margin * np.eye(len(p)))
    print(f"verified: |f(x) - f(y)| <= {c['lipschitz']} |x - y| for the slopes of the certificate")
except np.linalg.LinAlgError:
    sys.exit("the multipliers do not prove L")
