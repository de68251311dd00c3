"""Random objects, saved by torch.save in its formats and protocols: `ckpt hash` must list the tensors that torch.load gives,
with the SHA-256 of their elements.

    random_objects.py CKPT [COUNT [SEED]]
"""
import collections
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

import torch

DTYPES = [getattr(torch, name) for name in (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float8_e8m0fnu", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool", "complex32",
    "complex64", "complex128") if hasattr(torch, name)]
# torch.load does not read the others from the legacy format
LEGACY_DTYPES = [dtype for dtype in DTYPES if "float8" not in str(dtype) and str(dtype)[6:] not in (
    "uint16", "uint32", "uint64", "complex32")]
Pair = collections.namedtuple("Pair", "first second")
OPTIMIZERS = ["SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "RMSprop", "Rprop", "NAdam", "RAdam", "ASGD", "LBFGS",
              "Adafactor", "Muon"]
BATCH = 100  # files in one run of ckpt


class Maker:
    """Makes the objects of one file."""

    def __init__(self, rng, dtypes):
        self.rng, self.dtypes, self.made = rng, dtypes, []

    def shape(self):
        return [self.rng.choice((0, 1, 2, 3, 5)) for _ in range(self.rng.randrange(5))]

    def dense(self):
        shape, dtype = self.shape(), self.rng.choice(self.dtypes)
        size = torch.empty((), dtype=dtype).element_size()
        count = 1
        for n in shape:
            count *= n
        numbers = torch.tensor([self.rng.randrange(256) for _ in range(count * size)], dtype=torch.uint8)
        if dtype == torch.bool:
            numbers = numbers & 1
        return numbers.view(dtype).reshape(shape)

    def view(self):
        """Returns a view of a tensor: sliced, transposed, expanded, conjugate …"""
        t = self.dense()
        kind = self.rng.randrange(6)
        if kind == 0 and t.dim() >= 2:
            return t.transpose(0, -1)
        if kind == 1 and t.dim() and t.shape[0] > 1:
            return t[1:]
        if kind == 2 and t.dim() and t.shape[-1] > 1:
            return t[..., ::2]
        if kind == 3:
            return t.unsqueeze(0).expand(3, *t.shape)
        if kind == 4 and t.dtype in (torch.complex64, torch.complex128):
            return t.conj()
        return t.as_strided(t.shape, t.stride()) if t.numel() else t

    def special(self):
        kind = self.rng.randrange(6)
        if kind == 0:
            return torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 3, self.rng.choice((torch.qint8, torch.quint8)))
        if kind == 1:
            return torch.quantize_per_channel(torch.randn(3, 4), torch.rand(3) + .1, torch.zeros(3, dtype=torch.long), 0,
                                              torch.qint8)
        if kind == 2:
            return torch.eye(4).to_sparse().coalesce()
        if kind == 3:
            return torch.eye(4).to_sparse_csr()
        if kind == 4:
            return torch.nn.Parameter(torch.randn(2, 3), requires_grad=self.rng.random() < .5)
        return torch.randn(2, 2).requires_grad_()

    def tensor(self):
        if self.made and self.rng.random() < .2:
            return self.rng.choice(self.made)  # a tie
        t = self.rng.choices((self.dense, self.view, self.special), (5, 4, 2))[0]()
        self.made.append(t)
        return t

    def module(self):
        layers = [torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.Conv2d(1, 2, 3), torch.nn.Embedding(4, 2),
                  torch.nn.LSTM(2, 2), torch.nn.PReLU()]
        net = torch.nn.Sequential(*self.rng.sample(layers, self.rng.randrange(1, 4)))
        net.register_buffer("kept", torch.arange(3.))
        net.register_buffer("not_kept", torch.arange(3.), persistent=False)
        return net

    def optimizer(self):
        net = torch.nn.Sequential(torch.nn.Linear(3, 2, bias=False), torch.nn.Linear(2, 2, bias=False))
        kind = getattr(torch.optim, self.rng.choice(OPTIMIZERS), torch.optim.Adam)
        optimizer = kind(net.parameters(), lr=.01)

        def loss():
            optimizer.zero_grad()
            out = net(torch.ones(2, 3)).sum()
            out.backward()
            return out

        for _ in range(self.rng.randrange(1, 3)):
            optimizer.step(loss)
        return optimizer.state_dict()

    def value(self, depth):
        kind = self.rng.randrange(12 if depth else 5)
        if kind < 4:
            return self.tensor()
        if kind == 4:
            return self.rng.choice((None, True, 3, -2 ** 70, .5, "text", b"bytes", torch.float32, torch.Size([1, 2]), 1j))
        if kind in (5, 6):
            return {self.rng.choice((f"k{i}", f"a.b{i}", i)): self.value(depth - 1) for i in range(self.rng.randrange(4))}
        if kind == 7:
            return collections.OrderedDict((f"o{i}", self.value(depth - 1)) for i in range(self.rng.randrange(4)))
        if kind == 8:
            return [self.value(depth - 1) for _ in range(self.rng.randrange(4))]
        if kind == 9:
            return tuple(self.value(depth - 1) for _ in range(self.rng.randrange(3)))
        if kind == 10:
            return self.rng.choice((lambda: Pair(self.value(depth - 1), self.value(depth - 1)), self.optimizer))()
        return self.rng.choice((self.module, lambda: self.module().state_dict()))()


def add_digest(rows, path, t, dtype=None):
    numbers = torch.empty(t.numel(), dtype=t.dtype)  # not contiguous(), which keeps odd strides of one element
    numbers.copy_(t.detach().resolve_conj().resolve_neg().reshape(-1))
    data = numbers.view(torch.uint8).numpy().tobytes() if numbers.numel() else b""
    name = str(dtype or t.dtype)[6:]
    rows.append((".".join(path), name, tuple(t.shape), hashlib.sha256(data).hexdigest()))


def add_tensor(rows, path, t):
    if t.is_quantized:
        add_digest(rows, path, t.int_repr(), t.dtype)
    elif t.layout == torch.sparse_coo:
        add_digest(rows, path + ["indices"], t._indices())
        add_digest(rows, path + ["values"], t._values())
    elif t.layout == torch.sparse_csr:
        add_digest(rows, path + ["compressed_indices"], t.crow_indices())
        add_digest(rows, path + ["plain_indices"], t.col_indices())
        add_digest(rows, path + ["values"], t.values())
    else:
        add_digest(rows, path, t)


def add_rows(rows, path, v):
    """Appends to ROWS (name, dtype, shape, digest) of each tensor in V."""
    if isinstance(v, torch.Tensor):
        add_tensor(rows, path, v)
    elif isinstance(v, torch.nn.Module):
        add_rows(rows, path, dict(v.state_dict()))
    elif isinstance(v, dict):
        for key, entry in v.items():
            add_rows(rows, path + [str(key)], entry)
    elif isinstance(v, (list, tuple)) and not isinstance(v, torch.Size):
        for i, entry in enumerate(v):
            add_rows(rows, path + [str(i)], entry)


def save_random(path, seed):
    """Saves a random object to PATH, and returns how, and the rows of what torch loads from there."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    zipped, protocol = rng.random() < .6, rng.choice((2, 2, 3, 4, 5))
    maker = Maker(rng, DTYPES if zipped else LEGACY_DTYPES)
    made = {f"top{i}": maker.value(3) for i in range(rng.randrange(1, 4))} if rng.random() < .8 else maker.value(3)
    torch.save(made, path, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
    rows = []
    add_rows(rows, [], torch.load(path, weights_only=False))
    return f"{'zip' if zipped else 'legacy'} protocol {protocol} seed {seed}", rows


def hash_files(ckpt, paths):
    """Returns {path: rows} as ckpt gives them. The file that ckpt refuses has no rows."""
    done = subprocess.run([ckpt, "hash", "-q", "--json", *paths], stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    out = {}
    for line in done.stdout.decode().splitlines():
        report = json.loads(line)
        out[report["file"]] = [(row["name"], row["dtype"], tuple(row["shape"] or ()), row.get("digest"))
                               for row in report["tensors"]]
    return out, done.stderr.decode("utf-8", "replace")


def find_difference(want, found):
    """Returns how the rows differ, or None. Of composite tensors, ckpt may list more components than WANT has."""
    left = collections.Counter(found)
    for row in want:
        if not left[row]:
            near = [other for other in found if other[0] == row[0]]
            return f"{row} is missing; found {near}"
        left[row] -= 1
    composites = {name.rsplit(".", 1)[0] for name, *_ in found}
    names = {name for name, *_ in want}
    more = [row for row in left.elements() if row[3] and row[0].rpartition(".")[0] not in names | composites - {""}
            and not any(name.startswith(row[0] + ".") for name in names)]
    return f"{more} is not in the object" if more else None


def outcomes(ckpt, folder, count, first_seed=1):
    """Yields for each of COUNT objects a name and what is wrong, or None."""
    warnings.simplefilter("ignore")
    for begin in range(0, count, BATCH):
        saved = {}
        for seed in range(first_seed + begin, first_seed + min(count, begin + BATCH)):
            path = os.path.join(folder, f"random{seed}.pt")
            saved[path] = save_random(path, seed)
        found, messages = hash_files(ckpt, list(saved))
        for path, (name, rows) in saved.items():
            refused = [line for line in messages.splitlines() if path in line][:1]
            yield name, refused[0] if path not in found and refused else find_difference(rows, found.get(path, []))
            os.remove(path)


def main():
    ckpt, count, seed = os.path.abspath(sys.argv[1]), int((sys.argv[2:] or [1000])[0]), int((sys.argv[3:] or [1])[0])
    failed = total = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, wrong in outcomes(ckpt, folder, count, seed):
            total += 1
            failed += wrong is not None
            if wrong:
                print(f"FAIL {name}: {wrong}")
    print(f"random objects: {total - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
