#!/usr/bin/env python3
"""Compares what ckpt writes with what torch and the official safetensors library load from it.

    oracle.py [--sample] [--only REGEX] [-v] CKPT CORPUS CREATE

For every file of the corpus that torch.load(weights_only=True) accepts:
  copy         a copy without edits, by `ckpt strip`, loads as an equal object, with weights_only and with mmap
  convert      the output of `ckpt convert` to .pt loads as an equal object, too
  in_place     if the format permits edits in place: `ckpt add -i` and then `ckpt strip -i` give the original again
  prefix       `ckpt add` adds a prefix to the keys of every state dict; `ckpt strip` gives the original again
  safetensors  from the output of `ckpt convert` to .safetensors, the official library loads equal tensors and writes
               the same bytes; converted back to .pt, it has equal tensors
  shards       converted to shards, .safetensors and .bin, the index and the shards load as equal tensors
  cast         the output of `ckpt convert --cast` has the values of torch's .to(), and the original's ties and strides
  sanitize     `ckpt sanitize` does not change the object
  stat         min, max, mean, std, norm and counts equal torch's in double precision
For the other files that torch can load:
  repair       what weights_only refuses (TorchScript, whole models, tar, other protocols, damage that can be skipped) is
               accepted once ckpt has converted it, with the expected tensors, unless it holds objects of other classes
  sanitize_to_builtins  the output of `ckpt sanitize` is accepted, with the expected tensors except those that ckpt
               reports as left out or converted
For every safetensors file and shard set that the official library loads:
  same_as_pt, same_as_safetensors  converted, it holds the same tensors; the official writer gives the same bytes
For data made here:
  distributed  checkpoints of many ranks, read and written: see distributed.py
  mem          the bytes that torch saves for the backward pass are what `ckpt mem` estimates, within 1 %, for networks with
               two plans of `ckpt mem --code` each
  created      torch and safetensors load what CREATE (oracle/create.c) has put into a file
  random       of 1,000 random objects that torch.save wrote, the hash of each tensor is that of what torch loads: see
               random_objects.py
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
import torch.distributed.tensor  # noqa: E402,F401  without this import, weights_only refuses DTensor
import safetensors.torch as st  # noqa: E402

import casts  # noqa: E402
import created  # noqa: E402
import distributed  # noqa: E402
import mem  # noqa: E402
import random_objects  # noqa: E402
import stats  # noqa: E402
from same import difference  # noqa: E402


class Failure(Exception):
    """The check failed, for the reason given."""


class NotApplicable(Exception):
    """The check does not apply to the file, for the reason given."""


def refusal_reason(error):
    """Returns the part of torch's long message that gives the reason."""
    text = " ".join(str(error).split())
    return text.partition("WeightsUnpickler error: ")[2][:160] or text[:160]


class Oracle:
    def __init__(self, ckpt, folder):
        self.ckpt, self.folder = ckpt, folder
        # The outcome is "passed", "failed" or the reason of NotApplicable.
        self.counts = collections.Counter()  # {(kind of check, outcome): count}
        self.refused = []  # messages of conversions to safetensors that ckpt refused

    def path(self, name):
        """Returns the path of the file NAME in the temporary folder, and removes the file."""
        path = os.path.join(self.folder, name)
        if os.path.exists(path):
            os.remove(path)
        return path

    def run(self, *words):
        """Runs a command of ckpt and returns its exit status and its messages."""
        done = subprocess.run([self.ckpt, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        return done.returncode, done.stderr.decode("utf-8", "replace").strip()

    def run_ok(self, *words):
        """Runs a command that must succeed and returns its messages."""
        code, messages = self.run(*words)
        if code:
            raise exit_failure(words[0], code, messages)
        return messages

    def load(self, path, mmap=True):
        """Returns what torch loads from PATH with weights_only; with MMAP, mapping the file must give the same."""
        try:
            loaded = torch.load(path, weights_only=True)
        except Exception as e:
            raise Failure(f"weights_only refuses: {refusal_reason(e)}")
        if not mmap:
            return loaded
        try:
            mapped = torch.load(path, weights_only=True, mmap=True)
        except Exception as e:
            raise Failure(f"mmap refuses: {refusal_reason(e)}")
        found = difference(loaded, mapped)
        if found:
            raise Failure(f"mmap gives a different object: {found}")
        return loaded

    def count(self, kind, name, wrong):
        """Counts a check of KIND as failed if WRONG is not empty."""
        self.counts[kind, "failed" if wrong else "passed"] += 1
        if wrong:
            print(f"FAIL {kind} {name}: {wrong}")

    def check(self, name, path, original, check):
        """Runs CHECK on the file at PATH and counts the outcome. ORIGINAL is what the file holds."""
        kind = check.__name__.removeprefix("check_")
        try:
            check(self, path, original)
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


# Each function check_… that Oracle.check() calls gets the path of a file and what torch or safetensors loads from it.
# check_repair and check_sanitize_to_builtins get the file's row of the corpus's truth instead. A check that does not
# pass raises Failure or NotApplicable.

def check_copy(oracle, path, original):
    out = oracle.path("copy.pt")
    oracle.run_ok("strip", "--allow-none", "no such prefix.", path, "-o", out)  # edits nothing
    fail_if(difference(original, oracle.load(out)))


def check_convert(oracle, path, original):
    out = oracle.path("convert.pt")
    oracle.run_ok("convert", path, out)
    fail_if(difference(original, oracle.load(out)))


def is_state_dict(value):
    return isinstance(value, dict) and value and \
        all(isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in value.items())


def check_prefix(oracle, path, original):
    added, stripped = oracle.path("added.pt"), oracle.path("stripped.pt")
    code, messages = oracle.run("add", "p.", path, "-o", added)
    if code:
        if is_state_dict(original):
            raise exit_failure("add", code, messages)
        raise NotApplicable("no state dict in it")
    with_prefix = oracle.load(added)
    if is_state_dict(original):
        names = [name for name in with_prefix if name.startswith("p.")]
        if len(names) != len(original):
            raise Failure(f"{len(names)} of {len(original)} keys got the prefix")
        if not hasattr(original, "_metadata"):  # in _metadata, ckpt also renames the entry of the module itself
            fail_if(difference(original, with_prefix, lambda where, key: "p." + key if where == "root" else key))
    oracle.run_ok("strip", "p.", added, "-o", stripped)
    fail_if(difference(original, oracle.load(stripped)))


def can_map(path, original):
    """Returns whether torch loads ORIGINAL from the mapped file, too. If records are deflated, it does not: it takes the
    compressed bytes for the elements."""
    try:
        return not difference(original, torch.load(path, weights_only=True, mmap=True))
    except Exception:
        return False


def check_in_place(oracle, path, original):
    """Adds a prefix that makes the pickle outgrow the bytes that it had in the file, and strips the prefix again."""
    out, prefix = oracle.path("in-place.pt"), "a.prefix.that.outgrows.the.old.pickle."
    shutil.copyfile(path, out)
    code, messages = oracle.run("add", "-i", prefix, out)
    if code:
        raise NotApplicable("a format that is not edited in place, or no state dict in it")
    size, mmap = os.path.getsize(out), can_map(path, original)
    oracle.load(out, mmap)
    oracle.run_ok("strip", "-i", prefix, out)
    if os.path.getsize(out) != size:
        raise Failure("stripping the prefix changed the size of the file")
    fail_if(difference(original, oracle.load(out, mmap)))


def flatten(value, name=""):
    """Yields (name, tensor) for each tensor in VALUE, with the keys and indices of its path as the name."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from flatten(item, f"{name}.{i}" if name else str(i))


def element_bytes(t):
    return t.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def is_same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(element_bytes(a), element_bytes(b))


# In a legacy file a storage can be a view of another storage. A zip archive has no such views: there the tensor gets an
# offset into the whole storage, and so the same elements, but torch loads a larger storage. So these files
# are checked by check_safetensors only.
STORAGE_VIEWS = {"torch/legexp/h_view_metadata.pt"}


SAFETENSORS_DTYPES = set(st._TYPES.values()) | {getattr(torch, n) for n in ("complex64", "float8_e8m0fnu", "float4_e2m1fn_x2")
                                if hasattr(torch, n)}


def is_storable(t):
    return t.layout == torch.strided and not t.is_quantized and not t.is_nested and t.device.type != "meta" \
        and t.dtype in SAFETENSORS_DTYPES and not hasattr(t, "_local_tensor")


def split_header(data):
    """Returns the header of a safetensors file and the bytes after the header."""
    end = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:end], object_pairs_hook=collections.OrderedDict), data[end:]


def check_official_bytes(path):
    """Checks that the file has the bytes that the official library writes for the tensors and metadata in it."""
    ours = open(path, "rb").read()
    header, elements = split_header(ours)
    metadata = header.get("__metadata__")
    official = st.save(st.load_file(path), metadata=dict(metadata) if metadata is not None else None)
    if metadata is None or len(metadata) < 2:
        if ours != official:
            raise Failure("the official writer gives different bytes")
        return
    # The official writer writes the keys of the metadata in no fixed order. All else must be equal.
    official_header, official_elements = split_header(official)
    header.pop("__metadata__"), official_header.pop("__metadata__")
    if list(header.items()) != list(official_header.items()) or elements != official_elements:
        raise Failure("the official writer gives different bytes")


def check_loaded(tensors, original):
    """Checks that each of TENSORS is a tensor of ORIGINAL by the same name, or by the same name after a prefix."""
    originals = dict(flatten(original))
    for name, tensor in tensors.items():
        paths = [p for p in originals if p == name or p.endswith("." + name)]
        if not any(is_same(originals[p], tensor) for p in paths if is_storable(originals[p])):
            raise Failure(f"{name} differs" if paths else f"{name} is not in the source")


def check_safetensors(oracle, path, original):
    out, back = oracle.path("tensors.safetensors"), oracle.path("tensors.pt")
    code, messages = oracle.run("convert", path, out)
    if code:
        if is_state_dict(original) and all(is_storable(t) for t in original.values()):
            raise exit_failure("convert", code, messages)
        if not messages:
            raise Failure("refused without a message")
        oracle.refused.append(f"{os.path.relpath(path)}: {messages.splitlines()[-1]}")
        raise NotApplicable("refused, nothing lost")
    try:
        tensors = st.load_file(out)
    except Exception as e:
        raise Failure(f"safetensors refuses: {str(e)[:160]}")
    check_loaded(tensors, original)
    if is_state_dict(original):
        header = split_header(open(out, "rb").read())[0]
        known = set(tensors) | set(header.get("__metadata__", {}))  # the metadata hold the names of tied tensors
        lost = [name for name in original if name not in known]
        if lost:
            raise Failure(f"{lost[0]} is lost")
    check_official_bytes(out)
    oracle.run_ok("convert", out, back)
    again = oracle.load(back)
    if any(name not in again or not is_same(tensors[name], again[name]) for name in tensors):
        raise Failure("converted back, the tensors differ")


def recorded_ties(path):
    """Returns the metadata of a file, or of an index and its shards. For a tie, they have the entry
    {name that is tied: name of the tensor}."""
    if os.path.isdir(path):
        metadata = {}
        for name in os.listdir(path):
            if name.endswith((".safetensors", ".index.json")):
                metadata.update(recorded_ties(os.path.join(path, name)))
        return metadata
    with open(path, "rb") as f:
        data = f.read()
    if path.endswith(".json"):
        return json.loads(data).get("metadata") or {}
    return split_header(data)[0].get("__metadata__") or {}  # MLX writes null


def check_same_as_pt(oracle, path, want):
    """Checks that the .pt holds the tensors WANT, and the ties to them that the metadata record."""
    out = oracle.path("st.pt")
    oracle.run_ok("convert", path, out)
    got = oracle.load(out)
    ties = {name: of for name, of in recorded_ties(path).items() if name not in want and of in want}
    if set(got) != set(want) | set(ties):
        raise Failure(f"keys {sorted(set(got) ^ (set(want) | set(ties)))[:3]}")
    for name, of in ties.items():
        if got[name].data_ptr() != got[of].data_ptr() or got[name].shape != got[of].shape:
            raise Failure(f"{name} does not share the bytes of {of}")
    for name in want:
        if not is_same(want[name], got[name]):
            raise Failure(f"{name} differs")


def check_same_as_safetensors(oracle, path, want):
    out = oracle.path("st.safetensors")
    oracle.run_ok("convert", path, out)
    got = st.load_file(out)
    ties = recorded_ties(out)
    lost = [name for name in want if name not in got and not (name in ties and is_same(want[name], got[ties[name]]))]
    if lost or set(got) - set(want) or any(not is_same(want[name], got[name]) for name in got):
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


def check_shards(oracle, path, original):
    if not is_state_dict(original) or not all(is_storable(t) for t in original.values()) or len(original) < 3:
        raise NotApplicable("not a state dict that safetensors can hold")
    for name in ("model.safetensors", "pytorch_model.bin"):
        folder = os.path.join(oracle.folder, "shards")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        limit = max(t.numel() * t.element_size() for t in original.values()) + 1  # every tensor fits into one shard
        oracle.run_ok("convert", "--ties=copy", "--max-shard-size", str(limit), path, os.path.join(folder, name))
        files = os.listdir(folder)
        if len(files) == 1:
            load = st.load_file if name.endswith("s") else oracle.load
            got = load(os.path.join(folder, files[0]))
        else:
            got = load_shards(folder)
        if sorted(got) != sorted(original) or any(not is_same(original[k], got[k]) for k in original):
            raise Failure(f"{name}: the shards hold different tensors")


def check_stat(oracle, path, original):
    rows = stats.read_statistics(oracle.ckpt, path)
    if rows is None:
        raise Failure("ckpt stat refuses it")
    checked = 0
    try:
        tensors = list(flatten(original))
    except RecursionError:
        raise NotApplicable("it contains itself")
    for name, t in tensors:
        if name in rows and t.layout == torch.strided and t.device.type != "meta" and not t.is_quantized \
                and not t.is_nested and type(t) in (torch.Tensor, torch.nn.Parameter):
            found = stats.find_wrong_value(rows[name], t)
            if found:
                raise Failure(f"{name}: {found}")
            checked += 1
    if not checked:
        raise NotApplicable("no dense tensor in it")


def check_cast(oracle, path, original):
    """Casts all floats except counters: the values must be torch's; ties, strides and all else must not change."""
    def is_cast(name, t):  # the counters of optimizers, scalars named "step", keep their dtype
        return t.dtype in casts.DTYPES and (t.dim() or name.split(".")[-1] != "step")

    try:
        originals = [(name, t) for name, t in flatten(original) if casts.is_dense(t)]
    except RecursionError:
        raise NotApplicable("it contains itself")
    if not any(is_cast(name, t) for name, t in originals):
        raise NotApplicable("no floats in it")
    for dtype_name in ("bfloat16", "float8_e5m2", "float64"):
        out, dtype = oracle.path("cast.pt"), getattr(torch, dtype_name, None)
        if dtype is None:
            continue
        code, messages = oracle.run("convert", "--cast", "*=" + dtype_name, path, out)
        if code and ("share bytes" in messages or "negated" in messages):
            raise NotApplicable("refused, nothing lost")
        if code:
            raise exit_failure("convert", code, messages)
        results = [(name, t) for name, t in flatten(oracle.load(out)) if casts.is_dense(t)]
        if [name for name, _ in originals] != [name for name, _ in results]:
            raise Failure(f"{dtype_name}: different names")
        for (name, t), (_, result) in zip(originals, results):
            wrong = casts.find_wrong_cast(t, result, dtype if is_cast(name, t) else t.dtype)
            fail_if(wrong and f"{name}: {wrong}")
            same_layout = type(t) is type(result) and t.stride() == result.stride() and \
                t.storage_offset() == result.storage_offset()
            # in float8, a tensor that is no Parameter may lack requires_grad
            check_grad = dtype.itemsize > 1 or type(t) is torch.nn.Parameter
            if not same_layout or check_grad and t.requires_grad != result.requires_grad:
                raise Failure(f"{dtype_name}: {name} has a different class, stride, offset or requires_grad")
        if casts.find_sharing(t for _, t in originals) != casts.find_sharing(t for _, t in results):
            raise Failure(f"{dtype_name}: shared differently")


def check_cast_of_samples(oracle, _, samples):
    """Casts SAMPLES of every dtype to every float dtype, in .pt, .safetensors and shards. --cast converts an integer
    sample only by its full name, which is that of its dtype."""
    path = oracle.path("samples.pt")
    torch.save(samples, path)
    for dtype_name in casts.FLOATS:
        dtype, options = getattr(torch, dtype_name), ["--cast", dtype_name]
        for integer in casts.INTEGERS:
            options += ["--cast", f"{integer}={dtype_name}"]
        out, flat_out = oracle.path("cast.pt"), oracle.path("cast.safetensors")
        oracle.run_ok("convert", *options, path, out)
        oracle.run_ok("convert", "--ties=copy", *options, path, flat_out)
        for got in (oracle.load(out), st.load_file(flat_out)):
            if sorted(got) != sorted(samples):
                raise Failure(f"{dtype_name}: different names")
            for name in samples:
                wrong = casts.find_wrong_cast(samples[name], got[name], dtype)
                fail_if(wrong and f"{name} as {dtype_name}: {wrong}")
        if casts.find_sharing(samples.values()) != casts.find_sharing(oracle.load(out).values()):
            raise Failure(f"{dtype_name}: shared differently")
        folder = os.path.join(oracle.folder, "cast")
        shutil.rmtree(folder, ignore_errors=True)
        oracle.run_ok("convert", "--max-shard-size=100kB", "--to=torch-zip", *options, path, folder)
        shards = load_shards(folder)
        if set(shards) != set(samples) or any(casts.find_wrong_cast(samples[k], shards[k], dtype) for k in samples):
            raise Failure(f"{dtype_name}: the shards hold different tensors")
        again = oracle.path("again.pt")
        oracle.run_ok("convert", "--cast=float16", folder, again)
        if any(casts.find_wrong_cast(shards[name], t, torch.float16) for name, t in oracle.load(again).items()):
            raise Failure(f"{dtype_name}: shards cast again hold different tensors")


def check_stat_of_samples(oracle, _, samples):
    path = oracle.path("samples.pt")
    torch.save(samples, path)
    check_stat(oracle, path, samples)
    if len(stats.read_statistics(oracle.ckpt, path)) != len(samples):
        raise Failure("ckpt stat does not list a sample")


def sha256(t):
    return hashlib.sha256(element_bytes(t).numpy().tobytes()).hexdigest()


def becomes_state_dict(truth):
    """Returns whether ckpt reduces the file of TRUTH to its state dict, without objects of other classes."""
    return truth["kind"].startswith("torchscript") or truth["kind"] == "tar" or truth["root"].startswith("torch.nn.") \
        or truth["root"].startswith("__main__.")


def check_repair(oracle, path, truth):
    out = oracle.path("repaired.pt")
    code, messages = oracle.run("convert", path, out)
    if code and not truth["tensors"]:
        raise NotApplicable("refused, nothing lost")
    if code:
        raise exit_failure("convert", code, messages)
    if any(t.get("kind") == "wrapper" for t in truth["tensors"]):
        raise NotApplicable("the output rightly keeps tensors of classes outside of torch, which have no bytes of their own")
    try:
        repaired = oracle.load(out)
    except Failure as e:
        if "Unsupported global" in str(e) and not becomes_state_dict(truth):
            raise NotApplicable("the output rightly keeps objects of classes that torch.load refuses")
        if "deserialize object on" in str(e) or "restore data location" in str(e):
            raise NotApplicable("the output rightly keeps a device that this machine lacks")
        if "Unsupported operand 139" in str(e):
            raise NotApplicable("the output rightly keeps integers beyond 255 bytes, which torch.load refuses")
        if "codec can't decode" in str(e):
            raise NotApplicable("the output rightly keeps Python 2 strings that Python 3 cannot decode")
        raise
    tensors = dict(flatten(repaired))
    for t in truth["tensors"]:
        is_whole_tensor = "kind" not in t and "part" not in t and "sha256" in t  # no array, no component of a tensor
        if not is_whole_tensor:
            continue
        got = tensors.get(t["name"])
        if got is None:
            raise Failure(f"{t['name']} is lost")
        if list(got.shape) != t["shape"] or str(got.dtype) != "torch." + t["dtype"] or sha256(got) != t["sha256"]:
            raise Failure(f"{t['name']} differs")


def check_sanitize(oracle, path, original):
    out = oracle.path("sanitized.pt")
    messages = oracle.run_ok("sanitize", "--strict", path, "-o", out)
    sanitized = oracle.load(out)
    if " became " in messages:
        raise NotApplicable("an object was converted")
    fail_if(difference(original, sanitized))


def check_sanitize_to_builtins(oracle, path, truth):
    out = oracle.path("sanitized.pt")
    code, messages = oracle.run("sanitize", path, "-o", out)
    if code and ("a device that torch does not know" in messages or "is not plain data" in messages or
                 "no tensor is left" in messages and not any("sha256" in t for t in truth["tensors"])):
        raise NotApplicable("refused, nothing lost")
    if code:
        raise exit_failure("sanitize", code, messages)
    try:
        tensors = dict(flatten(oracle.load(out)))
    except Failure as e:
        if "deserialize object on" in str(e):
            raise NotApplicable("the output rightly keeps a device that this machine lacks")
        raise
    reported = re.findall(r": (\S*) \([^)]*\) (?:left out|became (?!tensor|parameter|dict|state))", messages)
    for t in truth["tensors"]:
        name, got = t["name"], tensors.get(t["name"])
        if "sha256" not in t or "part" in t:
            continue
        if got is None and any(name == prefix or name.startswith(prefix + ".") for prefix in reported):
            continue
        if "kind" in t and t["kind"] != "ndarray":
            continue
        if got is None:
            raise Failure(f"{name} is lost")
        if name in reported:  # converted: the output has another object by this name
            continue
        if list(got.shape) != t["shape"] or str(got.dtype) != "torch." + t["dtype"] or sha256(got) != t["sha256"]:
            raise Failure(f"{name} differs")


def truth_rows(corpus, only):
    """Yields the expected content of each file of the corpus that is not malformed and whose path ONLY matches."""
    folder = os.path.join(corpus, "truth")
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".jsonl"):
            continue
        with open(os.path.join(folder, name)) as f:
            for line in f:
                truth = json.loads(line)
                if truth["verdict"] in ("ok", "readable") and (not only or re.search(only, truth["file"])):
                    yield truth


def checks_of(truth, path):
    """Returns the argument that the checks of the file take, and a list of these checks."""
    if truth["kind"] in ("zip", "legacy", "tar", "pickle") and truth.get("weights_only") == truth["verdict"] == "ok":
        loaded = torch.load(path, weights_only=True)
        return loaded, [check_copy, check_convert, check_prefix, check_in_place, check_safetensors, check_shards,
                        check_stat, check_cast, check_sanitize]
    if truth["kind"] in ("zip", "legacy", "tar", "pickle", "torchscript", "torchscript-lite", "torchscript-json"):
        return truth, [check_repair, check_sanitize_to_builtins]
    if truth["kind"] == "safetensors":
        try:
            loaded = st.load_file(path)
        except Exception:
            return None, []
        return loaded, [check_same_as_pt, check_same_as_safetensors, check_stat]
    if truth["kind"] == "hf-shards":
        return load_shards(path), [check_same_as_pt, check_same_as_safetensors]
    return None, []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", action="store_true", help="one file in ten")
    parser.add_argument("--only")
    parser.add_argument("-v", action="store_true")
    parser.add_argument("ckpt")
    parser.add_argument("corpus")
    parser.add_argument("create")
    arguments = parser.parse_args()
    rows = list(truth_rows(arguments.corpus, arguments.only))
    if arguments.sample:
        rows = rows[::10]
    with tempfile.TemporaryDirectory() as folder:
        oracle = Oracle(os.path.abspath(arguments.ckpt), folder)
        groups = (("created", created.outcomes(os.path.abspath(arguments.create), folder)),
                  ("distributed", distributed.outcomes(oracle.ckpt, arguments.corpus, folder, arguments.sample)),
                  ("mem", mem.outcomes(oracle.ckpt, oracle.path("mem.pt"))),
                  ("random", random_objects.outcomes(oracle.ckpt, folder, 100 if arguments.sample else 1000)))
        for kind, outcomes in groups:
            for name, wrong in outcomes:
                oracle.count(kind, name, wrong)
        oracle.check("samples", "", stats.samples(), check_stat_of_samples)
        oracle.check("samples", "", casts.samples(), check_cast_of_samples)
        for truth in rows:
            path = os.path.join(arguments.corpus, truth["file"])
            argument, checks = checks_of(truth, path)
            for check in checks:
                if truth["file"] not in STORAGE_VIEWS or check is check_safetensors:
                    oracle.check(truth["file"], path, argument, check)
    if arguments.v:
        print("\n".join(f"refused {line}" for line in oracle.refused))
    for (kind, outcome), count in sorted(oracle.counts.items()):
        print(f"{kind:20} {outcome:24} {count}")
    passed = sum(count for (_, outcome), count in oracle.counts.items() if outcome == "passed")
    failed = sum(count for (_, outcome), count in oracle.counts.items() if outcome == "failed")
    print(f"torch {torch.__version__}")
    print(f"oracle: {passed} passed, {failed} failed")
    return failed or not passed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
