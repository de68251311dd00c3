#!/usr/bin/env python3
"""Compares what ckpt writes with what torch and the official safetensors library load from it.

    oracle.py [--sample] [--only REGEX] [-v] CKPT CORPUS CREATE

For every file of the corpus that torch.load(weights_only=True) accepts:
  copy         a copy without edits loads as an equal object, with weights_only and with mmap
  convert      a conversion to .pt does, too
  in_place     edits in place give the same as edits to a new file, if the format permits them
  prefix       `ckpt add` puts a prefix in front of the keys of every state dict; `ckpt strip` gives the original again
  safetensors  converted to .safetensors: the official library loads equal tensors and writes the same bytes; converted
               back to .pt, the object is equal
  shards       converted to shards, .safetensors and .bin, the index and the shards load as equal tensors
  cast         with floats of a different type, the values are those of torch's .to(), with the same ties and strides
  sanitize     `ckpt sanitize` does not change the object
  stat         min, max, mean, std, norm and counts equal torch's in double precision
For the other files that torch can load:
  repair       what weights_only refuses (TorchScript, whole models, tar, other protocols, damage that can be skipped) is
               accepted once ckpt has converted it, with the expected tensors, unless it holds objects of other classes
  sanitize_to_builtins  the output of `ckpt sanitize` is accepted, with the expected tensors except those that ckpt
               reports as left out or converted
For every safetensors file and shard set that the official library loads:
  same_as_pt, same_as_safetensors  converted, it holds the same tensors; the official writer gives the same bytes
Of data made here:
  distributed  checkpoints of many ranks, read and written: see distributed.py
  mem          for networks with two plans each of `ckpt mem --code`, the bytes that torch saves for the backward pass
               are what ckpt estimates, within 1 %
  created      torch and safetensors load what CREATE (oracle/create.c) has put into a file
  cast_of_samples, stat_of_samples  cast and stat of tensors of every dtype
"""
import argparse
import collections
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
import torch  # noqa: E402
import torch.distributed.tensor  # noqa: E402,F401  DTensor is known to weights_only only then
import safetensors.torch as st  # noqa: E402

import casts  # noqa: E402
import created  # noqa: E402
import distributed  # noqa: E402
import mem  # noqa: E402
import stats  # noqa: E402
from same import difference  # noqa: E402


class Failure(Exception):
    """The check failed, for the reason given."""


class NotApplicable(Exception):
    """The check does not apply to the file, for the reason given."""


def reason(e):
    """Returns the part of torch's long message that gives the reason."""
    text = " ".join(str(e).split())
    return text.partition("WeightsUnpickler error: ")[2][:160] or text[:160]


class Oracle:
    def __init__(self, ckpt, folder):
        self.ckpt, self.folder = ckpt, folder
        self.counts = collections.Counter()
        self.refused = []

    def path(self, name):
        path = os.path.join(self.folder, name)
        if os.path.exists(path):
            os.remove(path)
        return path

    def run(self, *words):
        p = subprocess.run([self.ckpt, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        return p.returncode, p.stderr.decode("utf-8", "replace").strip()

    def run_ok(self, *words):
        """Runs a command that must succeed and returns its messages."""
        code, messages = self.run(*words)
        if code:
            raise exit_failure(words[0], code, messages)
        return messages

    def load(self, path, mmap=True):
        """Returns what torch loads from PATH with weights_only; with MMAP, mapping the file must give the same."""
        try:
            x = torch.load(path, weights_only=True)
        except Exception as e:
            raise Failure(f"weights_only refuses: {reason(e)}")
        if not mmap:
            return x
        try:
            m = torch.load(path, weights_only=True, mmap=True)
        except Exception as e:
            raise Failure(f"mmap refuses: {reason(e)}")
        found = difference(x, m)
        if found:
            raise Failure(f"mmap gives a different object: {found}")
        return x

    def count(self, kind, name, wrong):
        """Counts a check of KIND as failed if WRONG is not empty."""
        self.counts[kind, "failed" if wrong else "passed"] += 1
        if wrong:
            print(f"FAIL {kind} {name}: {wrong}")

    def check(self, name, path, x, check):
        kind = check.__name__.removeprefix("check_")
        try:
            check(self, path, x)
        except NotApplicable as e:
            self.counts[kind, str(e)] += 1
        except Failure as e:
            self.count(kind, name, str(e))
        except Exception as e:
            self.count(kind, name, f"{type(e).__name__}: {e}")
        else:
            self.count(kind, name, None)


def exit_failure(command, code, messages):
    return Failure(f"ckpt {command} exits {code}: {' '.join(messages.split())[-200:]}")


def fail_if(difference_found):
    if difference_found:
        raise Failure(difference_found)


def check_copy(oracle, path, x):
    out = oracle.path("copy.pt")
    oracle.run_ok("strip", "no such prefix.", path, "-o", out)
    fail_if(difference(x, oracle.load(out)))


def check_convert(oracle, path, x):
    out = oracle.path("convert.pt")
    oracle.run_ok("convert", path, out)
    fail_if(difference(x, oracle.load(out)))


def is_state_dict(x):
    return isinstance(x, dict) and x and all(isinstance(k, str) and isinstance(v, torch.Tensor) for k, v in x.items())


def check_prefix(oracle, path, x):
    added, back = oracle.path("added.pt"), oracle.path("back.pt")
    code, messages = oracle.run("add", "p.", path, "-o", added)
    if code:
        if is_state_dict(x):
            raise exit_failure("add", code, messages)
        raise NotApplicable("no state dict in it")
    y = oracle.load(added)
    if is_state_dict(x):
        names = [k for k in y if k.startswith("p.")]
        if len(names) != len(x):
            raise Failure(f"{len(names)} of {len(x)} keys got the prefix")

        def name(where, key):
            if where.endswith("._metadata"):
                return "p." + key if key else key
            return "p." + key
        if not hasattr(x, "_metadata"):  # it also renames an entry for the root itself
            fail_if(difference(x, y, lambda where, key: name(where, key) if where == "root" else key))
    oracle.run_ok("strip", "p.", added, "-o", back)
    fail_if(difference(x, oracle.load(back)))


def can_map(path, x):
    """Returns whether torch loads X from the mapped file, too; in deflated records it reads the compressed bytes."""
    try:
        return not difference(x, torch.load(path, weights_only=True, mmap=True))
    except Exception:
        return False


def check_in_place(oracle, path, x):
    """Adds a prefix with which the pickle does not fit in its old place, and strips it again."""
    out, prefix = oracle.path("in-place.pt"), "a.prefix.that.outgrows.the.old.pickle."
    shutil.copyfile(path, out)
    code, messages = oracle.run("add", "-i", prefix, out)
    if code:
        raise NotApplicable("a format that is not edited in place, or no state dict in it")
    size, mmap = os.path.getsize(out), can_map(path, x)
    oracle.load(out, mmap)
    oracle.run_ok("strip", "-i", prefix, out)
    if os.path.getsize(out) != size:
        raise Failure("shorter names changed the size")
    fail_if(difference(x, oracle.load(out, mmap)))


def flatten(x, name=""):
    if isinstance(x, torch.Tensor):
        yield name, x
    elif isinstance(x, dict):
        for k, v in x.items():
            yield from flatten(v, f"{name}.{k}" if name else str(k))
    elif isinstance(x, (list, tuple)):
        for i, v in enumerate(x):
            yield from flatten(v, f"{name}.{i}" if name else str(i))


def element_bytes(t):
    return t.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def is_same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(element_bytes(a), element_bytes(b))


# In a legacy file a storage can be a view of another storage. A zip archive has no such views: there the tensor gets an
# offset into the whole storage, and so the same elements, but torch loads a larger storage.
STORAGE_VIEWS = {"torch/legexp/h_view_metadata.pt"}


SAFETENSORS_DTYPES = set(st._TYPES.values()) | {getattr(torch, n) for n in ("complex64", "float8_e8m0fnu", "float4_e2m1fn_x2")
                                if hasattr(torch, n)}


def is_storable(t):
    return t.layout == torch.strided and not t.is_quantized and not t.is_nested and t.device.type != "meta" \
        and t.dtype in SAFETENSORS_DTYPES and not hasattr(t, "_local_tensor")


def split_header(data):
    """Returns the header of a safetensors file and the bytes after it."""
    n = int.from_bytes(data[:8], "little")
    return json.loads(data[8:8 + n], object_pairs_hook=collections.OrderedDict), data[8 + n:]


def check_official_bytes(path):
    """Checks that the file has the bytes that the official library writes for its tensors and metadata."""
    ours = open(path, "rb").read()
    head, body = split_header(ours)
    meta = head.get("__metadata__")
    tensors = st.load_file(path)
    theirs = st.save(tensors, metadata=dict(meta) if meta is not None else None)
    if meta is None or len(meta) < 2:
        if ours != theirs:
            raise Failure("the official writer gives different bytes")
        return
    other, other_body = split_header(theirs)  # the order of several metadata keys is not fixed there
    head.pop("__metadata__"), other.pop("__metadata__")
    if list(head.items()) != list(other.items()) or body != other_body:
        raise Failure("the official writer gives different bytes")


def check_loaded(tensors, x):
    """Checks that each of TENSORS is a tensor of X by the same name, or by the same name below a prefix."""
    have = dict(flatten(x))
    for k, v in tensors.items():
        names = [n for n in have if n == k or n.endswith("." + k)]
        if not any(is_same(have[n], v) for n in names if is_storable(have[n])):
            raise Failure(f"{k} differs" if names else f"{k} is not in the source")


def check_safetensors(oracle, path, x):
    out, back = oracle.path("tensors.safetensors"), oracle.path("tensors.pt")
    code, messages = oracle.run("convert", path, out)
    if code:
        if is_state_dict(x) and all(is_storable(t) for t in x.values()):
            raise exit_failure("convert", code, messages)
        if not messages:
            raise Failure("refused without a message")
        oracle.refused.append(f"{os.path.relpath(path)}: {messages.splitlines()[-1]}")
        raise NotApplicable("refused, nothing lost")
    try:
        s = st.load_file(out)
    except Exception as e:
        raise Failure(f"safetensors refuses: {str(e)[:160]}")
    check_loaded(s, x)
    if is_state_dict(x):
        head = split_header(open(out, "rb").read())[0]
        known = set(s) | set(head.get("__metadata__", {}))
        lost = [k for k in x if k not in known]
        if lost:
            raise Failure(f"{lost[0]} is lost")
    check_official_bytes(out)
    oracle.run_ok("convert", out, back)
    y = oracle.load(back)
    if set(y) < set(s) or any(k not in y or not is_same(s[k], y[k]) for k in s):
        raise Failure("converted back, the tensors differ")


def recorded_ties(path):
    """Returns the metadata of a file, or of an index and its shards; that of a tie is {tied name: name of the tensor}."""
    if os.path.isdir(path):
        out = {}
        for f in os.listdir(path):
            out.update(recorded_ties(os.path.join(path, f)) if f.endswith((".safetensors", ".index.json")) else {})
        return out
    with open(path, "rb") as f:
        data = f.read()
    notes = json.loads(data).get("metadata") if path.endswith(".json") else split_header(data)[0].get("__metadata__")
    return notes or {}  # MLX writes null


def check_same_as_pt(oracle, path, want):
    """Checks that the .pt holds the tensors WANT, and the ties to them that the metadata record."""
    out = oracle.path("st.pt")
    oracle.run_ok("convert", path, out)
    y = oracle.load(out)
    ties = {k: of for k, of in recorded_ties(path).items() if k not in want and of in want}
    if set(y) != set(want) | set(ties):
        raise Failure(f"keys {sorted(set(y) ^ (set(want) | set(ties)))[:3]}")
    for k, of in ties.items():
        if y[k].data_ptr() != y[of].data_ptr() or y[k].shape != y[of].shape:
            raise Failure(f"{k} does not share the bytes of {of}")
    for k in want:
        if not is_same(want[k], y[k]):
            raise Failure(f"{k} differs")


def check_same_as_safetensors(oracle, path, want):
    out = oracle.path("st.safetensors")
    oracle.run_ok("convert", path, out)
    got = st.load_file(out)
    aliases = split_header(open(out, "rb").read())[0].get("__metadata__", {})  # a tied tensor is only recorded there
    lost = [k for k in want if k not in got and not (k in aliases and is_same(want[k], got[aliases[k]]))]
    if lost or set(got) - set(want) or any(not is_same(want[k], got[k]) for k in got):
        raise Failure(f"different tensors; {lost} lost")
    check_official_bytes(out)


def load_shards(folder):
    """Returns the tensors of all shards that the index in FOLDER names."""
    index = [f for f in sorted(os.listdir(folder)) if f.endswith(".index.json")][0]
    with open(os.path.join(folder, index)) as f:
        shards = sorted(set(json.load(f)["weight_map"].values()))
    out = {}
    for shard in shards:
        path = os.path.join(folder, shard)
        out.update(st.load_file(path) if shard.endswith(".safetensors") else torch.load(path, weights_only=True))
    return out


def check_shards(oracle, path, x):
    if not is_state_dict(x) or not all(is_storable(t) for t in x.values()) or len(x) < 3:
        raise NotApplicable("not a state dict that safetensors can hold")
    for name in ("model.safetensors", "pytorch_model.bin"):
        folder = os.path.join(oracle.folder, "shards")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        limit = max(t.numel() * t.element_size() for t in x.values()) + 1
        oracle.run_ok("convert", "--ties=copy", "--max-shard-size", str(limit), path, os.path.join(folder, name))
        files = os.listdir(folder)
        if len(files) == 1:
            load = st.load_file if name.endswith("s") else oracle.load
            got = load(os.path.join(folder, files[0]))
        else:
            got = load_shards(folder)
        if list(sorted(got)) != list(sorted(x)) or any(not is_same(x[k], got[k]) for k in x):
            raise Failure(f"{name}: the shards hold different tensors")


def check_stat(oracle, path, x):
    rows = stats.read_statistics(oracle.ckpt, path)
    if rows is None:
        raise Failure("ckpt stat refuses it")
    checked = 0
    try:
        have = list(flatten(x))
    except RecursionError:
        raise NotApplicable("it contains itself")
    for name, t in have:
        if name in rows and t.layout == torch.strided and t.device.type != "meta" and not t.is_quantized \
                and not t.is_nested and type(t) in (torch.Tensor, torch.nn.Parameter):
            found = stats.find_wrong_value(rows[name], t)
            if found:
                raise Failure(f"{name}: {found}")
            checked += 1
    if not checked:
        raise NotApplicable("no dense tensor in it")


def check_cast(oracle, path, x):
    """Casts all floats except counters: the values must be torch's; ties, strides and all else must not change."""
    def is_cast(k, t):
        return t.dtype in casts.TYPES and (t.dim() or k.split(".")[-1] != "step")

    try:
        have = [(k, t) for k, t in flatten(x) if casts.is_dense(t)]
    except RecursionError:
        raise NotApplicable("it contains itself")
    if not any(is_cast(k, t) for k, t in have):
        raise NotApplicable("no floats in it")
    for name in ("bfloat16", "float8_e5m2", "float64"):
        out, dtype = oracle.path("cast.pt"), getattr(torch, name, None)
        if dtype is None:
            continue
        code, messages = oracle.run("convert", "--cast", "*=" + name, path, out)
        if code and ("share bytes" in messages or "negated" in messages):
            raise NotApplicable("refused, nothing lost")
        if code:
            raise exit_failure("convert", code, messages)
        got = [(k, t) for k, t in flatten(oracle.load(out)) if casts.is_dense(t)]
        if [k for k, _ in have] != [k for k, _ in got]:
            raise Failure(f"{name}: different names")
        for (k, t), (_, u) in zip(have, got):
            to = dtype if is_cast(k, t) else t.dtype
            fail_if(casts.find_wrong_cast(t, u, to) and f"{k}: {casts.find_wrong_cast(t, u, to)}")
            if type(t) is not type(u) or t.stride() != u.stride() or t.storage_offset() != u.storage_offset() or \
                    t.requires_grad != u.requires_grad and (dtype.itemsize > 1 or type(t) is torch.nn.Parameter):
                raise Failure(f"{name}: {k} has a different class, stride, offset or requires_grad")
        if casts.find_sharing(t for _, t in have) != casts.find_sharing(t for _, t in got):
            raise Failure(f"{name}: shared differently")


def check_cast_of_samples(oracle, _, x):
    """Casts tensors of every dtype to every float dtype, in .pt, .safetensors and shards; integers by their names."""
    path = oracle.path("samples.pt")
    torch.save(x, path)
    named = [w for n in casts.INTEGERS for w in ("--cast", n + "=%s")]
    for name in casts.FLOATS:
        dtype, options = getattr(torch, name), ["--cast", name] + [w.replace("%s", name) for w in named]
        out, flat_out = oracle.path("cast.pt"), oracle.path("cast.safetensors")
        oracle.run_ok("convert", *options, path, out)
        oracle.run_ok("convert", "--ties=copy", *options, path, flat_out)
        for got in (oracle.load(out), st.load_file(flat_out)):
            if list(sorted(got)) != list(sorted(x)):
                raise Failure(f"{name}: different names")
            for k in x:
                fail_if(casts.find_wrong_cast(x[k], got[k], dtype) and f"{k} as {name}: {casts.find_wrong_cast(x[k], got[k], dtype)}")
        got = oracle.load(out)
        if casts.find_sharing(x.values()) != casts.find_sharing(got.values()):
            raise Failure(f"{name}: shared differently")
        folder = os.path.join(oracle.folder, "cast")
        shutil.rmtree(folder, ignore_errors=True)
        oracle.run_ok("convert", "--max-shard-size=100kB", "--to=torch-zip", *options, path, folder)
        shards = load_shards(folder)
        if set(shards) != set(x) or any(casts.find_wrong_cast(x[k], shards[k], dtype) for k in x):
            raise Failure(f"{name}: the shards hold different tensors")
        again = oracle.path("again.pt")
        oracle.run_ok("convert", "--cast=float16", folder, again)
        if any(casts.find_wrong_cast(shards[k], t, torch.float16) for k, t in oracle.load(again).items()):
            raise Failure(f"{name}: shards cast again hold different tensors")


def check_stat_of_samples(oracle, _, x):
    path = oracle.path("samples.pt")
    torch.save(x, path)
    check_stat(oracle, path, x)
    if len(stats.read_statistics(oracle.ckpt, path)) != len(x):
        raise Failure("a sample has no row")


def sha256(t):
    return hashlib.sha256(element_bytes(t).numpy().tobytes()).hexdigest()


def becomes_state_dict(r):
    """Returns whether ckpt reduces the file to its state dict, without objects of other classes."""
    return r["kind"].startswith("torchscript") or r["kind"] == "tar" or r["root"].startswith("torch.nn.") \
        or r["root"].startswith("__main__.")


def check_repair(oracle, path, r):
    out = oracle.path("mend.pt")
    code, messages = oracle.run("convert", path, out)
    if code and not r["tensors"]:
        raise NotApplicable("refused, nothing lost")
    if code:
        raise exit_failure("convert", code, messages)
    try:
        x = oracle.load(out)
    except Failure as e:
        if "Unsupported global" in str(e) and not becomes_state_dict(r):
            raise NotApplicable("the output rightly keeps objects of classes that torch.load refuses")
        if "deserialize object on" in str(e) or "restore data location" in str(e):
            raise NotApplicable("the output rightly keeps a device that this machine lacks")
        if "Unsupported operand 139" in str(e):
            raise NotApplicable("the output rightly keeps integers beyond 255 bytes, which torch.load refuses")
        if "codec can't decode" in str(e):
            raise NotApplicable("the output rightly keeps Python 2 strings that Python 3 cannot decode")
        raise
    have = dict(flatten(x))
    for t in r["tensors"]:
        if "kind" in t or "part" in t or "sha256" not in t:
            continue
        got = have.get(t["name"])
        if got is None:
            raise Failure(f"{t['name']} is lost")
        if list(got.shape) != t["shape"] or str(got.dtype) != "torch." + t["dtype"] or sha256(got) != t["sha256"]:
            raise Failure(f"{t['name']} differs")


def check_sanitize(oracle, path, x):
    out = oracle.path("plain.pt")
    messages = oracle.run_ok("sanitize", "--strict", path, "-o", out)
    y = oracle.load(out)
    if " became " in messages:
        raise NotApplicable("an object was converted")
    fail_if(difference(x, y))


def check_sanitize_to_builtins(oracle, path, r):
    out = oracle.path("plain.pt")
    code, messages = oracle.run("sanitize", path, "-o", out)
    if code and ("a device that torch does not know" in messages or "is not plain data" in messages or
                 "no tensor is left" in messages and not any("sha256" in t for t in r["tensors"])):
        raise NotApplicable("refused, nothing lost")
    if code:
        raise exit_failure("sanitize", code, messages)
    try:
        have = dict(flatten(oracle.load(out)))
    except Failure as e:
        if "deserialize object on" in str(e):
            raise NotApplicable("the output rightly keeps a device that this machine lacks")
        raise
    reported = re.findall(r": (\S*) \([^)]*\) (?:left out|became (?!tensor|parameter|dict|state))", messages)
    for t in r["tensors"]:
        name, got = t["name"], have.get(t["name"])
        if "sha256" not in t or "part" in t or got is None and any(name == g or name.startswith(g + ".") for g in reported):
            continue
        if "kind" in t and t["kind"] != "ndarray":
            continue
        if got is None:
            raise Failure(f"{name} is lost")
        if name in reported:
            continue
        if list(got.shape) != t["shape"] or str(got.dtype) != "torch." + t["dtype"] or sha256(got) != t["sha256"]:
            raise Failure(f"{name} differs")


def truth_rows(corpus, only):
    """Yields the expected content of each file of the corpus that is not malformed."""
    folder = os.path.join(corpus, "truth")
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".jsonl"):
            continue
        with open(os.path.join(folder, name)) as f:
            for line in f:
                r = json.loads(line)
                if r["verdict"] in ("ok", "readable") and (not only or re.search(only, r["file"])):
                    yield r


def checks_of(r, path):
    """Returns what the checks of a file take, and the checks."""
    if r["kind"] in ("zip", "legacy", "tar", "pickle") and r.get("weights_only") == r["verdict"] == "ok":
        x = torch.load(path, weights_only=True)
        return x, [check_copy, check_convert, check_prefix, check_in_place, check_safetensors, check_shards, check_stat,
                   check_cast, check_sanitize]
    if r["kind"] in ("zip", "legacy", "tar", "pickle", "torchscript", "torchscript-lite", "torchscript-json"):
        return r, [check_repair, check_sanitize_to_builtins]
    if r["kind"] == "safetensors":
        try:
            x = st.load_file(path)
        except Exception:
            return None, []
        return x, [check_same_as_pt, check_same_as_safetensors, check_stat]
    if r["kind"] == "hf-shards":
        return load_shards(path), [check_same_as_pt, check_same_as_safetensors]
    return None, []


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--sample", action="store_true", help="one file in ten")
    p.add_argument("--only")
    p.add_argument("-v", action="store_true")
    p.add_argument("ckpt")
    p.add_argument("corpus")
    p.add_argument("create")
    a = p.parse_args()
    rows = list(truth_rows(a.corpus, a.only))
    if a.sample:
        rows = rows[::10]
    with tempfile.TemporaryDirectory() as folder:
        oracle = Oracle(os.path.abspath(a.ckpt), folder)
        for kind, outcomes in (("created", created.outcomes(os.path.abspath(a.create), folder)),
                               ("distributed", distributed.outcomes(oracle.ckpt, a.corpus, folder, a.sample)),
                               ("mem", mem.outcomes(oracle.ckpt, oracle.path("mem.pt")))):
            for name, wrong in outcomes:
                oracle.count(kind, name, wrong)
        oracle.check("samples", "", stats.samples(), check_stat_of_samples)
        oracle.check("samples", "", casts.samples(), check_cast_of_samples)
        for r in rows:
            path = os.path.join(a.corpus, r["file"])
            x, checks = checks_of(r, path)
            for check in checks:
                if r["file"] not in STORAGE_VIEWS or check is check_safetensors:
                    oracle.check(r["file"], path, x, check)
    if a.v:
        print("\n".join(f"refused {line}" for line in oracle.refused))
    for (kind, what), n in sorted(oracle.counts.items()):
        print(f"{kind:20} {what:24} {n}")
    passed, failed = (sum(n for (_, w), n in oracle.counts.items() if w == what) for what in ("passed", "failed"))
    print(f"torch {torch.__version__}")
    print(f"oracle: {passed} passed, {failed} failed")
    return failed or not passed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
