#!/usr/bin/env python3
"""Compares what ckpt writes with what torch and the official safetensors library read from it.

    oracle.py [--sample] [--only REGEX] [-v] CKPT CORPUS CREATE

For every file of the corpus that torch.load(weights_only=True) accepts:
  copy      a copy without edits loads as an equal object, with weights_only and with mmap
  convert   so does a conversion to .pt
  in_place  edits in place give the same as edits to a new file, if the format permits them
  prefix    add p. renames the keys of every state dict; strip p. gives an object equal to the original
  tensors   converted to .safetensors: the official library reads equal tensors and writes the same bytes; converted
            back to .pt, the object is equal
  shards    converted to shards, safetensors and .bin, the index and the shards load as equal tensors
  cast      with floats of a different type, the values are those of torch's .to(), with the same ties and strides
  mend      files that weights_only refuses (TorchScript, whole models, tar, other protocols, damage that can be
            skipped) are accepted once ckpt has written them, with the tensors of the truth, unless they hold objects of
            other classes
  plain     ckpt sanitize does not change files that weights_only accepts; for all others that torch reads, its output is
            accepted, with the tensors of the truth except those that it reports as left out or converted
  stat      min, max, mean, std, norm and counts equal torch's in double precision
  distributed  checkpoints of many ranks, read and written: see distributed.py
  mem       networks built here, four by transformers, each with two plans of ckpt mem --code: the memory that torch
            saves for backward is what ckpt estimates, within 1 %
  created   torch and safetensors read from a file that CREATE (oracle/create.c) builds what CREATE added
For every safetensors file and shard set that the official library reads: the same tensors as .pt, the same bytes
when written again. `stat` is also compared for tensors of every dtype made here.
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


class Wrong(Exception):
    pass


class NotForThis(Exception):
    pass


def reason(e):
    """Returns the part of torch's long message with the reason."""
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

    def must(self, *words):
        code, said = self.run(*words)
        if code:
            raise Wrong(f"ckpt {words[0]} exits {code}: {' '.join(said.split())[-200:]}")
        return said

    def load(self, path, mmap=True):
        """Loads PATH in three ways, all of which must accept a file that ckpt wrote."""
        try:
            x = torch.load(path, weights_only=True)
        except Exception as e:
            raise Wrong(f"weights_only refuses: {reason(e)}")
        if not mmap:
            return x
        try:
            m = torch.load(path, weights_only=True, mmap=True)
        except Exception as e:
            raise Wrong(f"mmap refuses: {reason(e)}")
        found = difference(x, m)
        if found:
            raise Wrong(f"mmap gives something else: {found}")
        return x


def equal(found):
    if found:
        raise Wrong(found)


def copy(o, path, x):
    out = o.path("copy.pt")
    o.must("strip", "no such prefix.", path, "-o", out)
    equal(difference(x, o.load(out)))


def convert(o, path, x):
    out = o.path("convert.pt")
    o.must("convert", path, out)
    equal(difference(x, o.load(out)))


def is_state_dict(x):
    return isinstance(x, dict) and x and all(isinstance(k, str) and isinstance(v, torch.Tensor) for k, v in x.items())


def prefix(o, path, x):
    added, back = o.path("added.pt"), o.path("back.pt")
    code, said = o.run("add", "p.", path, "-o", added)
    if code:
        if is_state_dict(x):
            raise Wrong(f"ckpt add exits {code}: {' '.join(said.split())[-200:]}")
        raise NotForThis("no state dict in it")
    y = o.load(added)
    if is_state_dict(x):
        names = [k for k in y if k.startswith("p.")]
        if len(names) != len(x):
            raise Wrong(f"{len(names)} of {len(x)} keys got the prefix")

        def name(where, key):
            if where.endswith("._metadata"):
                return "p." + key if key else key
            return "p." + key
        if not hasattr(x, "_metadata"):  # with it, the root's own entry moves; the way back is what counts
            equal(difference(x, y, lambda where, key: name(where, key) if where == "root" else key))
    o.must("strip", "p.", added, "-o", back)
    equal(difference(x, o.load(back)))


def can_map(path, x):
    """Returns whether torch can map the file; of deflated records it would take compressed bytes for numbers."""
    try:
        return not difference(x, torch.load(path, weights_only=True, mmap=True))
    except Exception:
        return False


def in_place(o, path, x):
    """Adds a prefix in place that outgrows the pickle, and strips it again."""
    out, prefix = o.path("in-place.pt"), "a.prefix.that.outgrows.the.old.pickle."
    shutil.copyfile(path, out)
    code, said = o.run("add", "-i", prefix, out)
    if code:
        raise NotForThis("another kind of file, or no state dict in it")
    size, mmap = os.path.getsize(out), can_map(path, x)
    o.load(out, mmap)
    o.must("strip", "-i", prefix, out)
    if os.path.getsize(out) != size:
        raise Wrong("shorter names changed the size")
    equal(difference(x, o.load(out, mmap)))


def flat(x, name=""):
    if isinstance(x, torch.Tensor):
        yield name, x
    elif isinstance(x, dict):
        for k, v in x.items():
            yield from flat(v, f"{name}.{k}" if name else str(k))
    elif isinstance(x, (list, tuple)):
        for i, v in enumerate(x):
            yield from flat(v, f"{name}.{i}" if name else str(i))


def plain_bytes(t):
    return t.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def same_values(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(plain_bytes(a), plain_bytes(b))


# A legacy stream can say that one storage is a piece of another. A zip cannot: there the tensor gets an offset into the
# whole storage, which shows the same numbers and shares the same bytes.
PIECES = {"torch/legexp/h_view_metadata.pt"}


SAFE = set(st._TYPES.values()) | {getattr(torch, n) for n in ("complex64", "float8_e8m0fnu", "float4_e2m1fn_x2")
                                if hasattr(torch, n)}


def safe(t):
    return t.layout == torch.strided and not t.is_quantized and not t.is_nested and t.device.type != "meta" \
        and t.dtype in SAFE and not hasattr(t, "_local_tensor")


def header(data):
    n = int.from_bytes(data[:8], "little")
    return json.loads(data[8:8 + n], object_pairs_hook=collections.OrderedDict), data[8 + n:]


def official_bytes(path):
    """Checks that ckpt's file has the bytes that the official library writes for its tensors and metadata."""
    ours = open(path, "rb").read()
    head, body = header(ours)
    meta = head.get("__metadata__")
    tensors = st.load_file(path)
    theirs = st.save(tensors, metadata=dict(meta) if meta is not None else None)
    if meta is None or len(meta) < 2:
        if ours != theirs:
            raise Wrong("the official writer gives other bytes")
        return
    other, other_body = header(theirs)  # the order of several metadata keys is not fixed there
    head.pop("__metadata__"), other.pop("__metadata__")
    if list(head.items()) != list(other.items()) or body != other_body:
        raise Wrong("the official writer gives other bytes")


def check_loaded(s, x):
    have = dict(flat(x))
    for k, v in s.items():
        names = [n for n in have if n == k or n.endswith("." + k)]
        if not any(same_values(have[n], v) for n in names if safe(have[n])):
            raise Wrong(f"{k} is another tensor" if names else f"{k} came from nowhere")


def tensors(o, path, x):
    out, back = o.path("tensors.safetensors"), o.path("tensors.pt")
    code, said = o.run("convert", path, out)
    if code:
        if is_state_dict(x) and all(safe(t) for t in x.values()):
            raise Wrong(f"ckpt convert exits {code}: {' '.join(said.split())[-200:]}")
        if not said:
            raise Wrong("refused without a word")
        o.refused.append(f"{os.path.relpath(path)}: {said.splitlines()[-1]}")
        raise NotForThis("refused, nothing lost")
    try:
        s = st.load_file(out)
    except Exception as e:
        raise Wrong(f"safetensors refuses: {str(e)[:160]}")
    check_loaded(s, x)
    if is_state_dict(x):
        head = header(open(out, "rb").read())[0]
        known = set(s) | set(head.get("__metadata__", {}))
        lost = [k for k in x if k not in known]
        if lost:
            raise Wrong(f"{lost[0]} is lost")
    official_bytes(out)
    o.must("convert", out, back)
    y = o.load(back)
    if set(y) < set(s) or any(k not in y or not same_values(s[k], y[k]) for k in s):
        raise Wrong("the way back gives other tensors")


def recorded_ties(path):
    """Returns {tied name: tensor} from the metadata of a file, or of an index and its shards."""
    if os.path.isdir(path):
        out = {}
        for f in os.listdir(path):
            out.update(recorded_ties(os.path.join(path, f)) if f.endswith((".safetensors", ".index.json")) else {})
        return out
    with open(path, "rb") as f:
        data = f.read()
    notes = json.loads(data).get("metadata") if path.endswith(".json") else header(data)[0].get("__metadata__")
    return notes or {}  # MLX writes null


def same_as_pt(o, path, want):
    """Checks that the .pt has the tensors of the producer's reader, and ties to them if the metadata record some."""
    out = o.path("st.pt")
    o.must("convert", path, out)
    y = o.load(out)
    ties = {k: of for k, of in recorded_ties(path).items() if k not in want and of in want}
    if set(y) != set(want) | set(ties):
        raise Wrong(f"keys {sorted(set(y) ^ (set(want) | set(ties)))[:3]}")
    for k, of in ties.items():
        if y[k].data_ptr() != y[of].data_ptr() or y[k].shape != y[of].shape:
            raise Wrong(f"{k} does not share the bytes of {of}")
    for k in want:
        if not same_values(want[k], y[k]):
            raise Wrong(f"{k} is another tensor")


def same_as_safetensors(o, path, want):
    out = o.path("st.safetensors")
    o.must("convert", path, out)
    got = st.load_file(out)
    aliases = header(open(out, "rb").read())[0].get("__metadata__", {})  # ties are dropped and recorded there
    lost = [k for k in want if k not in got and not (k in aliases and same_values(want[k], got[aliases[k]]))]
    if lost or set(got) - set(want) or any(not same_values(want[k], got[k]) for k in got):
        raise Wrong(f"other tensors; {lost} lost")
    official_bytes(out)


def merged(folder):
    index = [f for f in sorted(os.listdir(folder)) if f.endswith(".index.json")][0]
    with open(os.path.join(folder, index)) as f:
        shards = sorted(set(json.load(f)["weight_map"].values()))
    out = {}
    for shard in shards:
        path = os.path.join(folder, shard)
        out.update(st.load_file(path) if shard.endswith(".safetensors") else torch.load(path, weights_only=True))
    return out


def shards(o, path, x):
    if not is_state_dict(x) or not all(safe(t) for t in x.values()) or len(x) < 3:
        raise NotForThis("not a state dict of plain tensors")
    for name in ("model.safetensors", "pytorch_model.bin"):
        folder = os.path.join(o.folder, "shards")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        limit = max(t.numel() * t.element_size() for t in x.values()) + 1
        o.must("convert", "--ties=copy", "--max-shard-size", str(limit), path, os.path.join(folder, name))
        files = os.listdir(folder)
        if len(files) == 1:
            load = st.load_file if name.endswith("s") else o.load
            got = load(os.path.join(folder, files[0]))
        else:
            got = merged(folder)
        if list(sorted(got)) != list(sorted(x)) or any(not same_values(x[k], got[k]) for k in x):
            raise Wrong(f"{name}: the pieces hold other tensors")


def stat(o, path, x):
    told = stats.rows(o.ckpt, path)
    if told is None:
        raise Wrong("ckpt stat refuses it")
    checked = 0
    try:
        have = list(flat(x))
    except RecursionError:
        raise NotForThis("it contains itself")
    for name, t in have:
        if name in told and t.layout == torch.strided and t.device.type != "meta" and not t.is_quantized \
                and not t.is_nested and type(t) in (torch.Tensor, torch.nn.Parameter):
            found = stats.wrong(told[name], t)
            if found:
                raise Wrong(f"{name}: {found}")
            checked += 1
    if not checked:
        raise NotForThis("no plain tensor in it")


def cast(o, path, x):
    """Casts all floats except counters: values must be torch's, ties, strides and all else unchanged."""
    def changes(k, t):
        return t.dtype in casts.TYPES and (t.dim() or k.split(".")[-1] != "step")

    try:
        have = [(k, t) for k, t in flat(x) if casts.plain(t)]
    except RecursionError:
        raise NotForThis("it contains itself")
    if not any(changes(k, t) for k, t in have):
        raise NotForThis("no floats in it")
    for name in ("bfloat16", "float8_e5m2", "float64"):
        out, dtype = o.path("cast.pt"), getattr(torch, name, None)
        if dtype is None:
            continue
        code, said = o.run("convert", "--cast", "*=" + name, path, out)
        if code and ("share bytes" in said or "negated" in said):
            raise NotForThis("refused, nothing lost")
        if code:
            raise Wrong(f"ckpt convert exits {code}: {' '.join(said.split())[-200:]}")
        got = [(k, t) for k, t in flat(o.load(out)) if casts.plain(t)]
        if [k for k, _ in have] != [k for k, _ in got]:
            raise Wrong(f"{name}: other tensors")
        for (k, t), (_, u) in zip(have, got):
            to = dtype if changes(k, t) else t.dtype
            equal(casts.wrong(t, u, to) and f"{k}: {casts.wrong(t, u, to)}")
            if type(t) is not type(u) or t.stride() != u.stride() or t.storage_offset() != u.storage_offset() or \
                    t.requires_grad != u.requires_grad and (dtype.itemsize > 1 or type(t) is torch.nn.Parameter):
                raise Wrong(f"{name}: {k} lies otherwise")
        if casts.sharing(t for _, t in have) != casts.sharing(t for _, t in got):
            raise Wrong(f"{name}: shared differently")


def cast_of_samples(o, _, x):
    """Casts every dtype to every floating one, in .pt, .safetensors and shards; integers by name."""
    path = o.path("samples.pt")
    torch.save(x, path)
    named = [w for n in casts.INTEGERS for w in ("--cast", n + "=%s")]
    for name in casts.FLOATS:
        dtype, options = getattr(torch, name), ["--cast", name] + [w.replace("%s", name) for w in named]
        out, flat_out = o.path("cast.pt"), o.path("cast.safetensors")
        o.must("convert", *options, path, out)
        o.must("convert", "--ties=copy", *options, path, flat_out)
        for got in (o.load(out), st.load_file(flat_out)):
            if list(sorted(got)) != list(sorted(x)):
                raise Wrong(f"{name}: other names")
            for k in x:
                equal(casts.wrong(x[k], got[k], dtype) and f"{k} as {name}: {casts.wrong(x[k], got[k], dtype)}")
        got = o.load(out)
        if casts.sharing(x.values()) != casts.sharing(got.values()):
            raise Wrong(f"{name}: shared differently")
        folder = os.path.join(o.folder, "cast")
        shutil.rmtree(folder, ignore_errors=True)
        o.must("convert", "--max-shard-size=100kB", "--to=torch-zip", *options, path, folder)
        pieces = merged(folder)
        if set(pieces) != set(x) or any(casts.wrong(x[k], pieces[k], dtype) for k in x):
            raise Wrong(f"{name}: the pieces hold other tensors")
        again = o.path("again.pt")
        o.must("convert", "--cast=float16", folder, again)
        if any(casts.wrong(pieces[k], t, torch.float16) for k, t in o.load(again).items()):
            raise Wrong(f"{name}: pieces cast again are other tensors")


def stat_of_samples(o, _, x):
    path = o.path("samples.pt")
    torch.save(x, path)
    stat(o, path, x)
    if len(stats.rows(o.ckpt, path)) != len(x):
        raise Wrong("not all samples are told of")


def sha256(t):
    return hashlib.sha256(plain_bytes(t).numpy().tobytes()).hexdigest()


def must_become_plain(r):
    """Returns whether the file is written as its state dict, without objects of other classes."""
    return r["kind"].startswith("torchscript") or r["kind"] == "tar" or r["root"].startswith("torch.nn.") \
        or r["root"].startswith("__main__.")


def mend(o, path, r):
    out = o.path("mend.pt")
    code, said = o.run("convert", path, out)
    if code and not r["tensors"]:
        raise NotForThis("refused, nothing lost")
    if code:
        raise Wrong(f"ckpt convert exits {code}: {' '.join(said.split())[-200:]}")
    try:
        x = o.load(out)
    except Wrong as e:
        if "Unsupported global" in str(e) and not must_become_plain(r):
            raise NotForThis("foreign objects are kept")
        if "deserialize object on" in str(e) or "restore data location" in str(e):
            raise NotForThis("a device that is not here is kept")
        if "Unsupported operand 139" in str(e):
            raise NotForThis("integers beyond 255 bytes are kept")
        if "codec can't decode" in str(e):
            raise NotForThis("Python 2 bytes that are no text are kept")
        raise
    have = dict(flat(x))
    for t in r["tensors"]:
        if "kind" in t or "part" in t or "sha256" not in t:
            continue
        got = have.get(t["name"])
        if got is None:
            raise Wrong(f"{t['name']} is lost")
        if list(got.shape) != t["shape"] or str(got.dtype) != "torch." + t["dtype"] or sha256(got) != t["sha256"]:
            raise Wrong(f"{t['name']} is another tensor")


def plain(o, path, x):
    out = o.path("plain.pt")
    said = o.must("sanitize", "--strict", path, "-o", out)
    y = o.load(out)
    if " became " in said:
        raise NotForThis("made plain")
    equal(difference(x, y))


def made_plain(o, path, r):
    out = o.path("plain.pt")
    code, said = o.run("sanitize", path, "-o", out)
    if code and ("a device that torch does not know" in said or "is not plain data" in said or
                 "no tensor is left" in said and not any("sha256" in t for t in r["tensors"])):
        raise NotForThis("refused, nothing lost")
    if code:
        raise Wrong(f"ckpt sanitize exits {code}: {' '.join(said.split())[-200:]}")
    try:
        have = dict(flat(o.load(out)))
    except Wrong as e:
        if "deserialize object on" in str(e):
            raise NotForThis("a device that is not here is kept")
        raise
    told = re.findall(r": (\S*) \([^)]*\) (?:left out|became (?!tensor|parameter|dict|state))", said)
    for t in r["tensors"]:
        name, got = t["name"], have.get(t["name"])
        if "sha256" not in t or "part" in t or got is None and any(name == g or name.startswith(g + ".") for g in told):
            continue
        if "kind" in t and t["kind"] != "ndarray":
            continue
        if got is None:
            raise Wrong(f"{name} is lost")
        if name in told:
            continue
        if list(got.shape) != t["shape"] or str(got.dtype) != "torch." + t["dtype"] or sha256(got) != t["sha256"]:
            raise Wrong(f"{name} is another tensor")


def entries(corpus, only):
    folder = os.path.join(corpus, "truth")
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".jsonl"):
            continue
        with open(os.path.join(folder, name)) as f:
            for line in f:
                r = json.loads(line)
                if r["verdict"] in ("ok", "readable") and (not only or re.search(only, r["file"])):
                    yield r


def tasks(r, path):
    if r["kind"] in ("zip", "legacy", "tar", "pickle") and r.get("weights_only") == r["verdict"] == "ok":
        x = torch.load(path, weights_only=True)
        return x, [copy, convert, prefix, in_place, tensors, shards, stat, cast, plain]
    if r["kind"] in ("zip", "legacy", "tar", "pickle", "torchscript", "torchscript-lite", "torchscript-json"):
        return r, [mend, made_plain]
    if r["kind"] == "safetensors":
        try:
            x = st.load_file(path)
        except Exception:
            return None, []
        return x, [same_as_pt, same_as_safetensors, stat]
    if r["kind"] == "hf-shards":
        return merged(path), [same_as_pt, same_as_safetensors]
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
    rows = list(entries(a.corpus, a.only))
    if a.sample:
        rows = rows[::10]
    with tempfile.TemporaryDirectory() as folder:
        o = Oracle(os.path.abspath(a.ckpt), folder)
        for name, wrong in created.outcomes(os.path.abspath(a.create), folder):
            o.counts["created", "failed" if wrong else "passed"] += 1
            if wrong:
                print(f"FAIL created {name}: {wrong}")
        for name, wrong in distributed.outcomes(o.ckpt, a.corpus, folder, a.sample):
            o.counts["distributed", "failed" if wrong else "passed"] += 1
            if wrong:
                print(f"FAIL distributed {name}: {wrong}")
        wrong, tried = mem.differences(o.ckpt, o.path("mem.pt"))
        o.counts["mem", "failed"] += len(wrong)
        o.counts["mem", "passed"] += tried - len(wrong)
        for what in wrong:
            print(f"FAIL {what}")
        for r in [{"file": "samples of stat"}, {"file": "samples of cast"}] + rows:
            path = os.path.join(a.corpus, r["file"])
            if "kind" in r:
                x, jobs = tasks(r, path)
            elif r["file"] == "samples of stat":
                x, jobs = stats.samples(), [stat_of_samples]
            else:
                x, jobs = casts.samples(), [cast_of_samples]
            for job in jobs:
                if r["file"] in PIECES and job is not tensors:
                    continue
                try:
                    job(o, path, x)
                    o.counts[job.__name__, "passed"] += 1
                except NotForThis as e:
                    o.counts[job.__name__, str(e)] += 1
                except Wrong as e:
                    o.counts[job.__name__, "failed"] += 1
                    print(f"FAIL {job.__name__} {r['file']}: {e}")
                except Exception as e:
                    o.counts[job.__name__, "failed"] += 1
                    print(f"FAIL {job.__name__} {r['file']}: {type(e).__name__}: {e}")
    if a.v:
        print("\n".join(f"refused {line}" for line in o.refused))
    for (job, what), n in sorted(o.counts.items()):
        print(f"{job:20} {what:24} {n}")
    passed, failed = (sum(n for (_, w), n in o.counts.items() if w == what) for what in ("passed", "failed"))
    print(f"torch {torch.__version__}")
    print(f"oracle: {passed} passed, {failed} failed")
    return failed or not passed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
