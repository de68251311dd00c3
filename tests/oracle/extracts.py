"""Compares what `ckpt lora --extract` makes of random models with torch's singular values, and loads it with peft.

    extracts.py CKPT

Each of MODELS models has linear, embedding and convolutional layers and the Conv1D of transformers, as in loras.py. A
second model differs by random matrices of small or full rank, of any size, and in some biases and norms. Checked is:
- each pair has the error of the best approximation of its rank, by torch.linalg.svd of the difference in float64:
  at most 1e-6 more, relatively, besides the rounding of the pair to its dtype; a difference of at most the wanted rank
  comes back but for that rounding. What the command reports of each pair is the same;
- any number of threads writes the same bytes;
- peft loads the adapter without a missing or unexpected tensor, and merge_and_unload of the first model in float64
  makes exactly what the pairs add, and tensors that are saved; so does `ckpt lora`, rounded once.
"""
import json
import os
import random
import sys
import tempfile
import warnings

import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file

from checks import check_seeds
from loras import DTYPES, Model, randomize, round_once, units

MODELS = int(os.environ.get("MODELS", 200))
EPSILONS = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
counts = {"pairs": 0, "pairs of the full rank of the difference": 0, "saved": 0, "biases": 0}
worst = {"error beyond the best": 0.0, "share kept": 0.0}


def difference(rng, shape, kind):
    """Returns a random float64 tensor of SHAPE: KIND "low" has a small rank, "full" any, "steep" falling values."""
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    rows, cols = shape[0], int(torch.tensor(shape[1:]).prod())
    size = 10.0**rng.uniform(-6, 2)
    if kind == "low":
        rank = min(rng.randrange(1, 7), rows, cols)
        left, right = (torch.randn(n, rank, generator=generator, dtype=torch.float64) for n in (rows, cols))
        return (size * left @ right.T).reshape(shape)
    full = torch.randn(rows, cols, generator=generator, dtype=torch.float64)
    if kind == "steep":
        left, values, right = torch.linalg.svd(full, full_matrices=False)
        full = left @ torch.diag(values * 10.0**-torch.arange(len(values), dtype=torch.float64)) @ right
    return (size * full).reshape(shape)


def change(rng, state, words, others):
    """Returns a changed copy of STATE: matrices of modules in WORDS and, of OTHERS, biases and norms."""
    new = {name: tensor.clone() for name, tensor in state.items()}
    for name, tensor in state.items():
        if any(word in name for word in words) and name.endswith(".weight") and tensor.ndim > 1 and rng.random() < 0.8:
            new[name] = (tensor.double() + difference(rng, tensor.shape, rng.choice(("low", "full", "steep"))))
        elif any(word in name for word in others) and tensor.ndim == 1 and rng.random() < 0.5:
            new[name] = tensor.double() + torch.rand(tensor.shape, dtype=torch.float64) - 0.5
    return {name: tensor.to(state[name].dtype).contiguous() for name, tensor in new.items()}


def product(adapter, module, weight, transposed):
    """Returns what the pair of MODULE adds to WEIGHT, in float64, and its rank."""
    prefix = f"base_model.model.{module}."
    embedding = prefix + "lora_embedding_A" in adapter
    down, up = (adapter[prefix + n].double() for n in
                (("lora_embedding_A", "lora_embedding_B") if embedding else ("lora_A.weight", "lora_B.weight")))
    added = up.reshape(up.shape[0], -1) @ down.reshape(down.shape[0], -1)
    return (added.T if embedding or transposed else added).reshape(weight.shape), down.shape[0]


def check_pair(report, adapter, before, after, transposed, rank, dtype):
    """Compares the pair that REPORT describes with AFTER - BEFORE. Returns what is wrong, or None."""
    added, found = product(adapter, report["name"][:-len(".weight")], before, transposed)
    wanted = (after.double() - before.double()).reshape(before.shape[0], -1)
    values = torch.linalg.svdvals(wanted)
    noise = 2.0**-38 if dtype == torch.float64 else 2.0**-22  # the share of the largest value that may count as 0
    if report["rank"] == 0:
        return None if not bool(wanted.any()) and not bool(added.any()) else "a pair of rank 0 adds something"
    if found != report["rank"] or found > rank:
        return f"rank {found}, reported {report['rank']}, wanted {rank}"
    if found < min(rank, len(values)) and float(values[found]) > noise * float(values[0]):
        return f"rank {found}, although value {found} is {float(values[found])} of {float(values[0])}"
    norm, best = float(values.square().sum().sqrt()), float(values[found:].square().sum().sqrt())
    error = float((wanted - added.reshape(wanted.shape)).norm())
    rounding = 4 * EPSILONS[dtype] * norm
    if error > best * (1 + 1e-6) + rounding + 1e-14 * norm + (noise * norm if found < rank else 0):
        return f"error {error}, best {best}, rounding {rounding}"
    if abs(report["kept"] - float(values[:found].square().sum() / values.square().sum())) > 1e-10:
        return f"keeps {report['kept']}"
    if abs(report["norm"] / norm - 1) > 1e-10:
        return f"norm {report['norm']}, not {norm}"
    counts["pairs"] += 1
    counts["pairs of the full rank of the difference"] += best <= 1e-7 * norm
    if dtype == torch.float64 and best > 1e-4 * norm:
        worst["error beyond the best"] = max(worst["error beyond the best"], error / best - 1)
    kept = float(values[:found].square().sum() / values.square().sum())
    worst["share kept"] = max(worst["share kept"], abs(report["kept"] - kept))
    return None


def load_with_peft(model, folder):
    """Merges the adapter in FOLDER into MODEL by peft. Returns the model and what peft complains about."""
    with warnings.catch_warnings(record=True) as list_of_warnings:
        warnings.simplefilter("always")
        loaded = PeftModel.from_pretrained(model, folder, autocast_adapter_dtype=False)
    texts = [str(warning.message) for warning in list_of_warnings]
    bad = [text for text in texts if "missing" in text or "unexpected" in text.lower()]
    return loaded.double().merge_and_unload(), bad


def extract(checks, seed):
    """Extracts the difference of two random models. Returns what is wrong, or None."""
    rng = random.Random(seed)
    dtype, pair_dtype = rng.choice(DTYPES), rng.choice((torch.float32, torch.float64, torch.float16, torch.bfloat16))
    shape_seed, rank = rng.randrange(2**31), rng.choice((1, 2, 4, 8, 64))
    transposed = rng.random() < 0.3
    words = ["c_attn", "c_proj"] if transposed else ["q_proj", "k_proj"]
    words += rng.choice(([], ["conv_in"], ["conv_in", "conv_out", "tokens"], ["tokens", "head"]))
    if transposed:  # one flag is for all matrices
        words = [word for word in words if word != "head"]
    others = rng.choice(([], [], [f"{word}.bias" for word in words], ["norm", "k_proj.bias"]))

    def make_model():
        model = Model(random.Random(shape_seed)).to(dtype)
        randomize(random.Random(shape_seed), model)
        return model
    with tempfile.TemporaryDirectory() as folder:
        base, tuned, out, again = (os.path.join(folder, name) for name in ("base", "tuned", "out", "again"))
        before = make_model().state_dict()
        after = change(rng, before, words, others)
        if not any(t.ndim > 1 and not torch.equal(t, before[name]) for name, t in after.items()):
            return None
        base, tuned = base + rng.choice((".safetensors", ".pt")), tuned + rng.choice((".safetensors", ".pt"))
        for path, state in (base, before), (tuned, after):
            torch.save(state, path) if path.endswith("pt") else save_file(state, path)
        command = ["lora", "--extract", base, tuned, f"--rank={rank}", "--others=save", "--embedding=tokens.weight",
                   f"--cast={str(pair_dtype)[len('torch.'):]}", "--json", "-o"]
        command += [out] if not transposed else [out, "--fan-in-fan-out"]
        printed = checks.run(*command, "-j1")
        if printed is None or checks.run(*[again if word == out else word for word in command], "-j3") is None:
            return "failed"
        for name in os.listdir(out):
            if open(os.path.join(out, name), "rb").read() != open(os.path.join(again, name), "rb").read():
                return f"{name} depends on -j"
        merged = os.path.join(folder, "merged.safetensors")
        if checks.run("lora", base, out, "-o", merged) is None:
            return "cannot be merged"
        model, bad = load_with_peft(make_model().double(), out)
        if bad:
            return f"peft: {bad}"
        adapter = load_file(os.path.join(out, "adapter_model.safetensors"))
        return check_all(json.loads(printed), adapter, before, after, load_file(merged), model.state_dict(), transposed,
                         rank, pair_dtype)


def check_all(report, adapter, before, after, merged, in_peft, transposed, rank, pair_dtype):
    kinds = {entry["name"]: entry for entry in report["tensors"]}
    changed = {name for name in after if not torch.equal(after[name], before[name])}
    if not changed <= set(kinds):
        return f"not reported: {changed - set(kinds)}"
    for name, old in before.items():
        entry = kinds.get(name, {"kind": "same"})
        expected = after[name].double() if entry["kind"] == "saved" else old.double()
        tolerance = 0.0
        if entry["kind"] == "pair":
            is_conv1d = transposed and old.ndim == 2
            problem = check_pair(entry, adapter, old, after[name], is_conv1d, rank, pair_dtype)
            if problem:
                return f"{name}: {problem}"
            expected = expected + product(adapter, name[:-len(".weight")], old, is_conv1d)[0]
            tolerance = 1e-6 * float((expected - old.double()).abs().max() + 1e-12)
        elif entry["kind"] == "bias":
            added = adapter[f"base_model.model.{name[:-len('.bias')]}.lora_B.bias"].double()
            expected = expected + added
            wanted = after[name].double() - old.double()
            if bool(((added - wanted).abs() > EPSILONS[pair_dtype] * wanted.abs() + 1e-7).any()):
                return f"{name}: the bias is not that of the tuned model"
            counts["biases"] += 1
        elif entry["kind"] == "saved":
            counts["saved"] += 1
        elif name in changed:
            return f"{name}: {entry['kind']}"
        if float((in_peft[name].double() - expected).abs().max()) > tolerance:
            return f"{name} ({entry['kind']}): peft makes something else"
        if units(merged[name], round_once(expected, old.dtype)) > 1:
            return f"{name} ({entry['kind']}): ckpt lora makes something else"
    return None


def check_threads(checks):
    """Checks that two models large enough for several threads give the same bytes for any number of them."""
    with tempfile.TemporaryDirectory() as folder:
        generator, path = torch.Generator().manual_seed(1), lambda name: os.path.join(folder, name)
        sizes = [(300, 400), (400, 300), (500, 20), (350, 350), (20, 600), (256, 512)] * 2
        base = {f"m{i}.weight": torch.randn(size, generator=generator) for i, size in enumerate(sizes)}
        save_file(base, path("base.safetensors"))
        tuned = {n: t + torch.randn(t.shape, generator=generator) for n, t in base.items()}
        save_file(tuned, path("tuned.safetensors"))
        for threads in 1, 2, 4, 7:
            done = checks.run("lora", "--extract", path("base.safetensors"), path("tuned.safetensors"), "--rank=20",
                              f"-j{threads}", "-o", path(f"out{threads}"))
            read = lambda folder, name: open(os.path.join(path(folder), name), "rb").read()
            same = done is not None and all(read(f"out{threads}", name) == read("out1", name)
                                            for name in ("adapter_model.safetensors", "adapter_config.json"))
            checks.expect(same, f"{threads} threads write other bytes than one")


def compare(checks, seed):
    if seed == 0:
        check_threads(checks)
    try:
        problem = extract(checks, seed)
    except Exception as error:  # of peft, so that the seed is printed
        problem = repr(error)
    checks.expect(problem is None, f"{seed}: {problem}")


if __name__ == "__main__":
    failed = check_seeds(sys.argv[1], "oracle-extract", MODELS, compare)
    print("oracle-extract: " + ", ".join(f"{value} {key}" for key, value in counts.items()) + ", at most " +
          ", ".join(f"{value:.1e} {key}" for key, value in worst.items()))
    sys.exit(failed)
