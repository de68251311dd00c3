"""Compares the estimate of `ckpt mem` with torch: builds networks, with transformers also its own, applies the plan that
`ckpt mem --code` prints, and adds up the storages that are alive after the forward pass. On the CPU, fp32."""
import gc
import json
import os
import subprocess
import weakref

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

try:
    import transformers
    transformers.logging.set_verbosity_error()
except ImportError:
    transformers = None


class Block(nn.Module):
    """A block of a ResNet, v1.5."""
    def __init__(self, before, width, stride, wide):
        super().__init__()
        after = 4 * width if wide else width
        sizes = [(before, width, 1), (width, width, 3), (width, after, 1)] if wide else [(before, width, 3),
                                                                                        (width, width, 3)]
        self.n, left = len(sizes), stride
        for i, (a, b, k) in enumerate(sizes, 1):
            s, left = (left, 1) if k == 3 else (1, left)
            setattr(self, f"conv{i}", nn.Conv2d(a, b, k, s, k // 2, bias=False))
            setattr(self, f"bn{i}", nn.BatchNorm2d(b))
        self.downsample = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = x
        for i in range(1, self.n + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = F.relu(y, inplace=True) if i < self.n else y
        y += x if self.downsample is None else self.downsample(x)
        return F.relu(y, inplace=True)


class ResNet(nn.Module):
    def __init__(self, depths, width, wide):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        before = width
        for stage, depth in enumerate(depths):
            blocks = []
            for i in range(depth):
                blocks.append(Block(before, width << stage, 2 if stage and not i else 1, wide))
                before = (width << stage) * (4 if wide else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(before, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x)), inplace=True), 3, 2, 1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class Attention(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.heads, self.qkv, self.proj = h // 64, nn.Linear(h, 3 * h), nn.Linear(h, h)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = self.qkv(x).reshape(b, s, 3, self.heads, 64).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, h))


class Mlp(nn.Module):
    def __init__(self, h, f):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(h, f), nn.Linear(f, h)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class VitBlock(nn.Module):
    def __init__(self, h, f):
        super().__init__()
        self.norm1, self.attn, self.norm2, self.mlp = nn.LayerNorm(h), Attention(h), nn.LayerNorm(h), Mlp(h, f)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Patches(nn.Module):
    def __init__(self, h, p):
        super().__init__()
        self.proj = nn.Conv2d(3, h, p, p)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Vit(nn.Module):
    def __init__(self, h, f, depth, p, side):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, h))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + (side // p) ** 2, h))
        self.patch_embed = Patches(h, p)
        self.blocks = nn.Sequential(*(VitBlock(h, f) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(h), nn.Linear(h, 10)

    def forward(self, x):
        x = self.patch_embed(x)
        x = self.blocks(torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed)
        return self.head(self.norm(x)[:, 0])


def of_transformers(head, config, **sizes):
    """Returns a function that builds a network of class HEAD with CONFIG and a vocabulary of 1000."""
    def make():
        return getattr(transformers, head)(getattr(transformers, config)(vocab_size=1000, **sizes)).train()
    return make


LLAMA = dict(hidden_size=128, intermediate_size=256, num_attention_heads=4, num_key_value_heads=4)
TEXTS = {  # name: how it is made, batch, sequence
    "bert": (of_transformers("BertForMaskedLM", "BertConfig", hidden_size=128, num_hidden_layers=6,
                             num_attention_heads=4, intermediate_size=512, max_position_embeddings=128,
                             hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), 4, 64),
    "gpt2": (of_transformers("GPT2LMHeadModel", "GPT2Config", n_embd=128, n_layer=7, n_head=4, n_positions=128,
                             attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0), 4, 64),
    "llama": (of_transformers("LlamaForCausalLM", "LlamaConfig", num_hidden_layers=8, **LLAMA), 4, 64),
    "qwen3": (of_transformers("Qwen3ForCausalLM", "Qwen3Config", num_hidden_layers=5, head_dim=64, **LLAMA), 3, 96),
}
MODELS = {
    "basic": (lambda: ResNet((2, 2, 2, 2), 16, False), 4, 96),
    "basic-uneven": (lambda: ResNet((1, 3, 2, 1), 24, False), 3, 64),
    "bottleneck": (lambda: ResNet((2, 3, 2, 2), 16, True), 2, 96),
    "vit": (lambda: Vit(128, 512, 6, 16, 128), 4, 128),
    "vit-wide": (lambda: Vit(192, 384, 9, 8, 64), 3, 64),
    "vit-deep": (lambda: Vit(64, 256, 14, 16, 96), 5, 96),
}


class Alive(TorchDispatchMode):
    """Adds up the bytes of all storages that were created and are alive, except those KNOWN."""
    def __init__(self, known):
        super().__init__()
        self.known, self.size = known, {}

    def add(self, t):
        if isinstance(t, torch.Tensor):
            storage = t.untyped_storage()
            key = storage._cdata
            if key not in self.known and key not in self.size:
                self.size[key] = storage.nbytes()
                weakref.finalize(storage, self.size.pop, key, None)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in tree_leaves(out):
            self.add(t)
        return out


def alive_after_forward(model, x, y):
    """Returns the bytes alive after the forward pass; without Y, the input ids are the labels."""
    known = {t.untyped_storage()._cdata for t in (*model.parameters(), *model.buffers())}
    counter = Alive(known)
    counter.add(x)
    counter.add(y)
    with counter:
        loss = F.cross_entropy(model(x), y) if y is not None else model(input_ids=x, labels=x).loss
    gc.collect()
    total = sum(counter.size.values())
    loss.backward()
    return total


def planned(words):
    """Yields two plans of the command WORDS with their code: for the lowest peak, and for one halfway to it."""
    report = json.loads(subprocess.run([*words, "--json"], capture_output=True, check=True).stdout)
    half = (report["total"]["bytes"] + report["plan"]["total"]["bytes"]) // 2
    for more in [], ["--fits", str(half * 11 // 10 + 2**30 + 100)]:
        plan = json.loads(subprocess.run([*words, *more, "--json"], capture_output=True, check=True).stdout)["plan"]
        yield plan, subprocess.run([*words, *more, "--code"], capture_output=True, check=True, text=True).stdout


def check(ckpt, path, name):
    """Returns what differs by more than 1 %, or None."""
    make, batch, size = {**MODELS, **TEXTS}[name]
    torch.manual_seed(0)
    model = make()
    torch.save(model.state_dict(), path)
    words = [ckpt, "mem", path, "-b", str(batch)]
    if name in TEXTS:
        model.config.to_json_file(os.path.join(os.path.dirname(path), "config.json"))
        words += ["-s", str(size)]
        x, y = torch.randint(0, 1000, (batch, size)), None
    else:
        words += ["--image", f"{size}x{size}", "--config", ""]
        x, y = torch.rand(batch, 3, size, size), torch.zeros(batch, dtype=torch.long)
    wrong = [differs(name, make(), x, y, *p) for p in planned(words)]
    return next((w for w in wrong if w), None)


def differs(name, model, x, y, plan, code):
    """Returns what the PLAN estimates wrongly for MODEL after CODE, or None."""
    exec(code, {"model": model})  # printed by ckpt, for a network built here
    found, counted = alive_after_forward(model, x, y), plan["activations_kept"]["bytes"]
    if abs(counted / found - 1) > 0.01:
        return f"mem of {name}: {counted} bytes are kept by ckpt mem, {found} by torch"
    return None


def differences(ckpt, path):
    """Returns the differences of all networks, and how many networks there are."""
    names = [*MODELS, *(TEXTS if transformers else ())]
    if not transformers:
        print("oracle skipped: mem of BERT, GPT-2, LLaMA and Qwen: no transformers (make oracle-env)")
    return [d for d in (check(ckpt, path, name) for name in names) if d], len(names)

