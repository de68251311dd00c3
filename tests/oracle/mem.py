"""Compares the bytes that `ckpt mem` estimates for activations with those that torch keeps, on the CPU in float32.

Builds networks (also of transformers, if it is installed), applies the plan that `ckpt mem --code` prints, and adds up the
storages that are alive after the forward pass.
"""
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


class ResNetBlock(nn.Module):
    """A basic block or a bottleneck of torchvision's ResNet: the stride is that of the first 3x3 convolution."""
    def __init__(self, inputs, width, stride, bottleneck):
        super().__init__()
        outputs = 4 * width if bottleneck else width
        sizes = [(inputs, width, 3), (width, width, 3)]  # input channels, output channels, kernel of each layer
        if bottleneck:
            sizes = [(inputs, width, 1), (width, width, 3), (width, outputs, 1)]
        self.layers, stride_left = len(sizes), stride
        for i, (layer_inputs, layer_outputs, kernel) in enumerate(sizes, 1):
            layer_stride, stride_left = (stride_left, 1) if kernel == 3 else (1, stride_left)
            conv = nn.Conv2d(layer_inputs, layer_outputs, kernel, layer_stride, kernel // 2, bias=False)
            setattr(self, f"conv{i}", conv)
            setattr(self, f"bn{i}", nn.BatchNorm2d(layer_outputs))
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = x
        for i in range(1, self.layers + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = F.relu(y, inplace=True) if i < self.layers else y
        y += x if self.downsample is None else self.downsample(x)
        return F.relu(y, inplace=True)


class ResNet(nn.Module):
    def __init__(self, depths, width, bottleneck):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        channels = width
        for stage, depth in enumerate(depths):
            blocks = []
            for i in range(depth):
                stride = 2 if stage and not i else 1
                blocks.append(ResNetBlock(channels, width << stage, stride, bottleneck))
                channels = (width << stage) * (4 if bottleneck else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x)), inplace=True), 3, 2, 1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class Attention(nn.Module):
    HEAD_DIM = 64

    def __init__(self, hidden):
        super().__init__()
        self.heads = hidden // self.HEAD_DIM
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)

    def forward(self, x):
        batch, sequence, hidden = x.shape
        qkv = self.qkv(x).reshape(batch, sequence, 3, self.heads, self.HEAD_DIM).permute(2, 0, 3, 1, 4)
        attention = F.scaled_dot_product_attention(*qkv.unbind(0))
        return self.proj(attention.transpose(1, 2).reshape(batch, sequence, hidden))


class Mlp(nn.Module):
    def __init__(self, hidden, intermediate):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(hidden, intermediate), nn.Linear(intermediate, hidden)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class VitBlock(nn.Module):
    def __init__(self, hidden, intermediate):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(hidden), Attention(hidden)
        self.norm2, self.mlp = nn.LayerNorm(hidden), Mlp(hidden, intermediate)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Patches(nn.Module):
    def __init__(self, hidden, patch):
        super().__init__()
        self.proj = nn.Conv2d(3, hidden, patch, patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Vit(nn.Module):
    def __init__(self, hidden, intermediate, depth, patch, side):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, hidden))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + (side // patch) ** 2, hidden))
        self.patch_embed = Patches(hidden, patch)
        self.blocks = nn.Sequential(*(VitBlock(hidden, intermediate) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, 10)

    def forward(self, x):
        x = self.patch_embed(x)
        x = self.blocks(torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed)
        return self.head(self.norm(x)[:, 0])


def builder(network, config, **sizes):
    """Returns a function that builds the class NETWORK of transformers from the class CONFIG, with a vocabulary of 1000."""
    def build():
        return getattr(transformers, network)(getattr(transformers, config)(vocab_size=1000, **sizes)).train()
    return build


LLAMA = dict(hidden_size=128, intermediate_size=256, num_attention_heads=4, num_key_value_heads=4)
LANGUAGE_MODELS = {  # name: (function that builds it, batch size, length of the sequences)
    "bert": (builder("BertForMaskedLM", "BertConfig", hidden_size=128, num_hidden_layers=6,
                     num_attention_heads=4, intermediate_size=512, max_position_embeddings=128,
                     hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), 4, 64),
    "gpt2": (builder("GPT2LMHeadModel", "GPT2Config", n_embd=128, n_layer=7, n_head=4, n_positions=128,
                     attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0), 4, 64),
    "llama": (builder("LlamaForCausalLM", "LlamaConfig", num_hidden_layers=8, **LLAMA), 4, 64),
    "qwen3": (builder("Qwen3ForCausalLM", "Qwen3Config", num_hidden_layers=5, head_dim=64, **LLAMA), 3, 96),
}
IMAGE_MODELS = {  # name: (function that builds it, batch size, width and height of the images)
    "basic": (lambda: ResNet((2, 2, 2, 2), width=16, bottleneck=False), 4, 96),
    "basic-uneven": (lambda: ResNet((1, 3, 2, 1), width=24, bottleneck=False), 3, 64),
    "bottleneck": (lambda: ResNet((2, 3, 2, 2), width=16, bottleneck=True), 2, 96),
    "vit": (lambda: Vit(hidden=128, intermediate=512, depth=6, patch=16, side=128), 4, 128),
    "vit-wide": (lambda: Vit(hidden=192, intermediate=384, depth=9, patch=8, side=64), 3, 64),
    "vit-deep": (lambda: Vit(hidden=64, intermediate=256, depth=14, patch=16, side=96), 5, 96),
}


class LiveStorages(TorchDispatchMode):
    """Keeps the sizes of all storages that were created and are not freed yet, except those in IGNORED."""
    def __init__(self, ignored):
        super().__init__()
        self.ignored, self.nbytes = ignored, {}  # {address of a storage: its bytes}

    def add(self, t):
        if isinstance(t, torch.Tensor):
            storage = t.untyped_storage()
            key = storage._cdata
            if key not in self.ignored and key not in self.nbytes:
                self.nbytes[key] = storage.nbytes()
                weakref.finalize(storage, self.nbytes.pop, key, None)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in tree_leaves(out):
            self.add(t)
        return out


def live_bytes_after_forward(model, inputs, labels):
    """Returns the bytes of the storages kept after the forward pass. If LABELS is None, INPUTS are also the labels."""
    parameters = {t.untyped_storage()._cdata for t in (*model.parameters(), *model.buffers())}
    live = LiveStorages(ignored=parameters)
    live.add(inputs)
    live.add(labels)
    with live:
        if labels is None:
            loss = model(input_ids=inputs, labels=inputs).loss
        else:
            loss = F.cross_entropy(model(inputs), labels)
    gc.collect()
    total = sum(live.nbytes.values())
    loss.backward()
    return total


def plans(command):
    """Yields two plans of COMMAND, each with its code: for the lowest peak of memory, and for a peak halfway to that."""
    def run(*options):
        return subprocess.run([*command, *options], capture_output=True, check=True, text=True).stdout

    report = json.loads(run("--json"))
    half = (report["total"]["bytes"] + report["plan"]["total"]["bytes"]) // 2
    memory = half * 11 // 10 + 2**30 + 100  # ckpt leaves 10 % and 1 GiB of the memory free
    for options in [], ["--fits", str(memory)]:
        yield json.loads(run(*options, "--json"))["plan"], run(*options, "--code")


def wrong_model(ckpt, path, name):
    """Returns a text about a plan for the network NAME whose estimate is wrong by more than 1 %, or None."""
    build, batch, size = {**IMAGE_MODELS, **LANGUAGE_MODELS}[name]
    torch.manual_seed(0)
    model = build()
    torch.save(model.state_dict(), path)
    command = [ckpt, "mem", path, "-b", str(batch)]
    if name in LANGUAGE_MODELS:
        model.config.to_json_file(os.path.join(os.path.dirname(path), "config.json"))
        command += ["-s", str(size)]
        inputs, labels = torch.randint(0, 1000, (batch, size)), None
    else:
        command += ["--image", f"{size}x{size}", "--config", ""]
        inputs, labels = torch.rand(batch, 3, size, size), torch.zeros(batch, dtype=torch.long)
    wrong = [wrong_plan(build(), inputs, labels, *plan) for plan in plans(command)]
    return next((text for text in wrong if text), None)


def wrong_plan(model, inputs, labels, plan, code):
    """Returns what PLAN estimates wrongly for MODEL once CODE has changed it, or None."""
    exec(code, {"model": model})  # CODE is printed by ckpt, for a network built here
    kept, estimated = live_bytes_after_forward(model, inputs, labels), plan["activations_kept"]["bytes"]
    return f"ckpt mem estimates {estimated} bytes, torch keeps {kept}" if abs(estimated / kept - 1) > 0.01 else None


def outcomes(ckpt, path):
    """Yields (name, what is wrong or None) for each network."""
    if not transformers:
        print("oracle skipped: mem of BERT, GPT-2, LLaMA and Qwen: no transformers (make oracle-env)")
    for name in [*IMAGE_MODELS, *(LANGUAGE_MODELS if transformers else ())]:
        yield name, wrong_model(ckpt, path, name)
