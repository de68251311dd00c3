"""Compares what `ckpt lora` makes of random models and adapters with peft's merge_and_unload and with torch.

    loras.py CKPT

Each of MODELS models has linear, embedding and convolutional layers and the Conv1D of transformers, and one or two
adapters with random ranks, patterns and settings. peft saves the adapters; some are renamed as kohya-ss or diffusers
name them. Three comparisons are made:
- with sums in float64 in the order that ckpt-lora(1) gives, rounded once: all bits are equal, except with DoRA, for
  which the order of the sums in a norm is torch's own: at most one unit in the last place;
- with merge_and_unload of a copy of the model and the adapters in float64, rounded once: at most one unit in the last
  place. This compares the meaning: scales, patterns, orders of dimensions;
- with merge_and_unload in the dtypes of the model and the adapters, which rounds the product and the sum: the units
  that it differs by are counted, and no result of ckpt may be farther from the exact one than that of peft.
"""
import os
import random
import sys
import tempfile
import warnings

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers.pytorch_utils import Conv1D

from checks import check_seeds

MODELS = int(os.environ.get("MODELS", 200))
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
warnings.filterwarnings("ignore")


class Block(torch.nn.Module):
    def __init__(self, rng):
        super().__init__()
        n, m = rng.randrange(3, 40), rng.randrange(3, 40)
        self.q_proj = torch.nn.Linear(n, m)
        self.k_proj = torch.nn.Linear(m, m)
        self.c_attn = Conv1D(m, n)
        self.c_proj = Conv1D(m, m)
        self.conv_in = torch.nn.Conv2d(n, m, rng.choice((1, 3)))
        self.conv_out = torch.nn.Conv1d(m, n, 3)
        self.norm = torch.nn.LayerNorm(m)


class Model(torch.nn.Module):
    def __init__(self, rng):
        super().__init__()
        self.config = {"model_type": "custom"}
        self.tokens = torch.nn.Embedding(rng.randrange(3, 50), rng.randrange(3, 30))
        self.layers = torch.nn.ModuleList([Block(rng) for _ in range(rng.randrange(1, 4))])
        self.head = torch.nn.Linear(rng.randrange(3, 20), rng.randrange(3, 20))


def randomize(rng, module, names=None):
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if names is None or any(word in name for word in names):
                value = torch.randn(parameter.shape, generator=generator)
                if "magnitude" in name:
                    value = value.abs() + 0.1
                parameter.copy_(value.to(parameter.dtype))


def random_config(rng):
    linear = rng.random() < 0.5  # a Conv1D and a Linear of one adapter get different orders in peft, but one flag
    names = (["q_proj", "k_proj"] if linear else ["c_attn", "c_proj"]) + ["conv_in", "conv_out", "tokens"]
    dora = rng.random() < 0.3
    targets = rng.sample(names, rng.randrange(1, len(names) + 1))
    return LoraConfig(
        r=rng.choice((1, 2, 4, 5, 8)), lora_alpha=rng.choice((1, 2, 3, 8, 16)), target_modules=targets, use_dora=dora,
        use_rslora=rng.random() < 0.3, fan_in_fan_out=not linear, init_lora_weights=True,
        lora_bias=not dora and "tokens" not in targets and rng.random() < 0.2,
        modules_to_save=["head"] if rng.random() < 0.3 else None,
        rank_pattern=rng.choice(({}, {"layers.0.k_proj": 3}, {r"layers\.[01]\.(q|k)_proj": 2, "conv_in": 1}, {"^layers.1.c_attn": 6})),
        alpha_pattern=rng.choice(({}, {"q_proj": 5}, {r".*\.0\..*": 7}, {"tokens": 9, "layers.0": 3})))


def round_once(exact, dtype):
    """Rounds float64 to DTYPE, without rounding to float32 before it is rounded to 16 bits, as torch does."""
    if dtype in (torch.float32, torch.float64):
        return exact.to(dtype)
    bits = exact.to(torch.float32)
    away = (bits.double().abs() > exact.abs()).to(torch.int32)
    odd = bits.view(torch.int32) - away
    odd = torch.where(bits.double() == exact, odd, odd | 1)
    return odd.view(torch.float32).to(dtype)


def units(a, b):
    """Returns the largest distance of A and B, in units in the last place."""
    width = {2: torch.int16, 4: torch.int32}[a.element_size()]

    def ordered(t):
        bits = t.contiguous().view(width).to(torch.int64)
        return torch.where(bits < 0, -(bits & (2**(8 * a.element_size() - 1) - 1)), bits)
    return int((ordered(a) - ordered(b)).abs().max()) if a.numel() else 0


def in_order(w, down, up, scale):
    """Returns W + SCALE * UP DOWN as ckpt-lora(1) has it."""
    total = torch.zeros_like(w)
    for k in range(down.shape[0]):
        total = total + up[:, k:k + 1] * down[k:k + 1, :]
    return w + scale * total


def merge_by_hand(weights, adapter, layers, factor):
    """Changes WEIGHTS (float64) as ADAPTER (the tensors of peft) says; LAYERS has the layers of peft by name."""
    exact = set(weights)
    for name, layer in layers.items():
        scale = layer.scaling["default"] * factor
        w = weights[name + ".weight"]
        get = lambda word: adapter[f"base_model.model.{name}.{word}"].double()
        if "tokens" in name:
            down, up, transposed = get("lora_embedding_A"), get("lora_embedding_B"), True
        else:
            down, up, transposed = get("lora_A.weight"), get("lora_B.weight"), getattr(layer, "fan_in_fan_out", False)
        matrix = w.T if transposed else w.reshape(w.shape[0], -1)
        new = in_order(matrix, down.reshape(down.shape[0], -1), up.reshape(up.shape[0], -1), scale)
        if f"base_model.model.{name}.lora_magnitude_vector" in adapter:
            norm = new.square().sum(1).sqrt()
            new = new * (get("lora_magnitude_vector").reshape(-1) / norm)[:, None]
            exact.discard(name + ".weight")
        weights[name + ".weight"] = new.T if transposed else new.reshape(w.shape)
        if f"base_model.model.{name}.lora_B.bias" in adapter:
            weights[name + ".bias"] = weights[name + ".bias"] + scale * get("lora_B.bias")
    for name in adapter:
        plain = name.replace("base_model.model.", "")
        if "lora_" not in name:
            weights[plain] = adapter[name].double()
    return exact


def lora_layers(peft_model):
    return {name.replace("base_model.model.", ""): module for name, module in peft_model.named_modules()
            if hasattr(module, "scaling") and module.scaling}


def rename(rng, adapter, layers, folder):
    """Saves ADAPTER as kohya-ss or diffusers does, unless it has what these cannot express. Returns the path."""
    if any(("lora_A" not in n and "lora_B" not in n) or "bias" in n for n in adapter):
        return None
    kohya, out = rng.random() < 0.5, {}
    if any(getattr(layer, "fan_in_fan_out", False) for layer in layers.values()):
        return None
    for name, layer in layers.items():
        module = "lora_unet_" + name.replace(".", "_") if kohya else "unet." + name
        down, up = (".lora_down.weight", ".lora_up.weight") if kohya else rng.choice(
            ((".lora.down.weight", ".lora.up.weight"), (".lora_linear_layer.down.weight", ".lora_linear_layer.up.weight")))
        out[module + down] = adapter[f"base_model.model.{name}.lora_A.weight"]
        out[module + up] = adapter[f"base_model.model.{name}.lora_B.weight"]
        out[module + ".alpha"] = torch.tensor(layer.scaling["default"] * layer.r["default"], dtype=torch.float64)
    path = os.path.join(folder, "other_names.safetensors")
    save_file({k: v.contiguous() for k, v in out.items()}, path)
    return path


counts = {"changed tensors": 0, "exact": 0, "one unit": 0, "as peft": 0, "peft differs": 0, "most units of peft": 0}


def compare(checks, seed):
    try:
        problem = merge(checks, seed)
    except Exception as error:  # of peft, so that the seed is printed
        problem = repr(error)
    checks.expect(problem is None, f"{seed}: {problem}")


def merge(checks, seed):
    """Merges a random model with random adapters. Returns what is wrong, or None."""
    rng = random.Random(seed)
    dtype = rng.choice(DTYPES)
    shape_seed = rng.randrange(2**31)

    def make_model():
        model = Model(random.Random(shape_seed)).to(dtype)
        randomize(random.Random(shape_seed), model)
        return model
    with tempfile.TemporaryDirectory() as folder:
        base = os.path.join(folder, "base." + rng.choice(("safetensors", "pt")))
        state = make_model().state_dict()
        first_config = random_config(rng)
        if first_config.modules_to_save and rng.random() < 0.5:  # as the head of a classifier: only the adapter has it
            state = {name: tensor for name, tensor in state.items() if not name.startswith("head.")}
        torch.save(state, base) if base.endswith("pt") else save_file(state, base)
        weights = {k: v.double() for k, v in state.items()}
        native, exact, command = make_model(), set(weights), ["lora", base]
        double_model = make_model().double()
        for number in range(rng.choice((1, 1, 2))):
            path = os.path.join(folder, f"adapter{number}")
            config = random_config(rng) if number else first_config
            if number:
                config.modules_to_save = None
            peft_model = get_peft_model(make_model(), config)
            randomize(rng, peft_model, ("lora_", "modules_to_save"))
            peft_model.save_pretrained(path, safe_serialization=rng.random() < 0.7)
            file = os.path.join(path, "adapter_model.safetensors")
            adapter = load_file(file) if os.path.exists(file) else torch.load(file.replace("safetensors", "bin"))
            layers = lora_layers(peft_model)
            factor = rng.choice((1, 1, 0.5, -2)) if not number else 1
            exact &= merge_by_hand(weights, adapter, layers, factor)
            native = PeftModel.from_pretrained(native, path)
            double_model = PeftModel.from_pretrained(double_model, path, autocast_adapter_dtype=False).double()
            for merged in native, double_model:
                for layer in lora_layers(merged).values():
                    layer.scaling["default"] *= factor
            native, double_model = native.merge_and_unload(), double_model.merge_and_unload()
            command += [rename(rng, adapter, layers, path) or path, f"--scale={factor}"]
        out = os.path.join(folder, "out.safetensors")
        if checks.run(*command, "-o", out) is None:
            return "failed"
        return compare_states(load_file(out), weights, exact, native.state_dict(), double_model.state_dict(), dtype,
                              state)


def compare_states(ours, weights, exact, native, in_double, dtype, before):
    if set(ours) != set(native):
        return f"names {set(ours) ^ set(native)}"
    for name, tensor in ours.items():
        if tensor.dtype != dtype:
            return f"{name}: {tensor.dtype}, not {dtype}"
        by_hand, by_peft = round_once(weights[name], dtype), round_once(in_double[name], dtype)
        apart = units(tensor, by_hand)
        if name in before and torch.equal(tensor, before[name]) and torch.equal(by_hand, tensor):
            continue
        counts["changed tensors"] += 1
        counts["exact"] += apart == 0
        counts["one unit"] += apart == 1
        if apart > (name not in exact):
            return f"{name}: {apart} units from sums in order"
        if units(tensor, by_peft) > 1:
            return f"{name}: {units(tensor, by_peft)} units from peft in float64"
        theirs = native[name].to(dtype)
        difference = units(tensor, theirs)
        counts["as peft" if difference == 0 else "peft differs"] += 1
        counts["most units of peft"] = max(counts["most units of peft"], difference)
        error, their_error = ((t.double() - weights[name]).abs() for t in (tensor, theirs))
        if bool((error > their_error + 1e-12 * weights[name].abs()).any()):
            return f"{name}: peft is closer to the exact result"
    return None


if __name__ == "__main__":
    failed = check_seeds(sys.argv[1], "oracle-lora", MODELS, compare)
    print("oracle-lora: " + ", ".join(f"{value} {key}" for key, value in counts.items()))
    sys.exit(failed)
