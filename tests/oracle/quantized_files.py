"""Checks that `ckpt convert --dequantize` gives the bits that the library of each quantization scheme gives.

    quantized_files.py CKPT [--corpus CORPUS]

Quantizes random weights by each library that is installed, or by the published formula where the library needs a GPU
(GPTQ, AWQ, DeepSeek, ComfyUI). With --corpus, also writes one small file of each kind to CORPUS/quantized, and
what is in it to CORPUS/truth/quantized.jsonl.
"""
import contextlib
import copy
import hashlib
import json
import os
import shutil
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file

from checks import Checks

FLOATS = (torch.float16, torch.bfloat16, torch.float32)


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def as_int32(words):
    """Returns WORDS, int64 below 2**32, with the same bits as int32."""
    return torch.where(words < 2**31, words, words - 2**32).int()


def pack_rows(codes, bits):
    """Packs each column of CODES into 32-bit words without gaps."""
    stream = ((codes.unsqueeze(-1) >> torch.arange(bits)) & 1).permute(0, 2, 1).reshape(-1, 32, codes.shape[1])
    return as_int32((stream.long() << torch.arange(32).view(1, 32, 1)).sum(1))


def bitsandbytes():
    import bitsandbytes.functional as F
    for kind in ("nf4", "fp4"):
        for dtype in FLOATS:
            for nested in (False, True):
                # widths that are a multiple of 16 but not of the block size give wrong numbers on CPUs
                for shape in ((16, 64), (96, 40), (32, 66)):
                    packed, state = F.quantize_4bit(torch.randn(shape).to(dtype), quant_type=kind, blocksize=64,
                                                    compress_statistics=nested)
                    tensors = {f"l.weight.{k}": v for k, v in state.as_dict(packed=True).items()}
                    yield (f"bnb_{kind}_{name_of(dtype)}{'_nested' * nested}_{shape[1]}",
                           {"l.weight": packed, **tensors}, F.dequantize_4bit(packed, state), {})
    codes, scales, _ = F.int8_vectorwise_quant(torch.randn(8, 48).half())
    yield ("bnb_int8", {"l.weight": codes, "l.SCB": scales, "l.weight_format": torch.tensor(0, dtype=torch.uint8)},
           F.int8_vectorwise_dequant(codes, scales), {})


def compressed_tensors():
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    def compress(name, form, shape, dtype, scale, zero=None, global_scale=None, **args):
        scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args))
        compressor = BaseCompressor.get_value_from_registry(form)
        tensors = {"weight": torch.randn(shape).to(dtype), "weight_scale": scale.to(dtype)}
        if zero is not None:
            tensors["weight_zero_point"] = zero
        if global_scale is not None:
            tensors["weight_global_scale"] = global_scale
        packed = compressor.compress(tensors, scheme)
        return (f"ct_{name}_{name_of(dtype)}", {"l." + k: v for k, v in packed.items()},
                compressor.decompress(packed, scheme)["weight"], {})

    def small(*shape):
        return torch.rand(shape) * 0.02 + 0.001

    def exponents(low, high, *shape):
        return 2.0 ** torch.randint(low, high, shape)

    for t in FLOATS:
        fp8, int8 = {"num_bits": 8, "type": "float"}, {"num_bits": 8, "type": "int"}
        yield compress("fp8_tensor", "float-quantized", (8, 64), t, small(1), strategy="tensor", **fp8)
        yield compress("fp8_channel", "float-quantized", (8, 64), t, small(8, 1), strategy="channel", **fp8)
        yield compress("fp8_block", "float-quantized", (256, 384), t, small(2, 3), strategy="block",
                       block_structure=[128, 128], **fp8)
        yield compress("int8", "int-quantized", (8, 64), t, small(8, 1), strategy="channel", **int8)
        yield compress("int8_zero", "int-quantized", (8, 64), t, small(8, 1), strategy="channel", symmetric=False,
                       zero=torch.randint(-100, 100, (8, 1), dtype=torch.int8), **int8)
        yield compress("pack4_channel", "pack-quantized", (24, 40), t, small(24, 1) * 9, strategy="channel",
                       num_bits=4, type="int")
        for bits in (3, 4, 5, 8):
            group = {"num_bits": bits, "type": "int", "strategy": "group", "group_size": 32}
            scale, half = small(40, 2) * 2.0 ** (9 - bits), 2 ** (bits - 1)
            yield compress(f"pack{bits}", "pack-quantized", (40, 64), t, scale, **group)
            yield compress(f"pack{bits}_zero", "pack-quantized", (40, 64), t, scale, symmetric=False,
                           zero=torch.randint(-half, half, (40, 2), dtype=torch.int8), **group)
        yield compress("nvfp4", "nvfp4-pack-quantized", (8, 64), t,
                       (torch.rand(8, 4) * 400 + 1).to(torch.float8_e4m3fn), num_bits=4, type="float",
                       strategy="tensor_group", group_size=16, global_scale=torch.tensor([1234.5]))
        yield compress("mxfp4", "mxfp4-pack-quantized", (8, 64), t, exponents(-6, 3, 8, 2), num_bits=4, type="float",
                       strategy="group", group_size=32)
        yield compress("mxfp8", "mxfp8-quantized", (8, 64), t, exponents(-9, -3, 8, 2), strategy="group",
                       group_size=32, scale_dtype=torch.uint8, **fp8)


def transformers():
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    dequantize = Fp8Dequantize(None)._dequantize_one
    codes = torch.randn(256, 384).to(torch.float8_e4m3fn)
    exponents = (2.0 ** torch.randint(-9, 3, (2, 3))).to(torch.float8_e8m0fnu)
    for scale in (torch.rand(2, 3), torch.rand(2, 3).bfloat16(), exponents):
        yield (f"hf_fp8_{name_of(scale.dtype)}", {"l.weight": codes, "l.weight_scale_inv": scale},
               dequantize(codes, scale), {})
    codes = torch.randint(-128, 127, (16, 64), dtype=torch.int8)
    scale = (2.0 ** torch.randint(-9, 3, (16, 4))).to(torch.float8_e8m0fnu)
    yield "hf_fp4", {"l.weight": codes, "l.weight_scale_inv": scale}, dequantize(codes, scale), {}
    blocks = torch.randint(0, 255, (2, 6, 3, 16), dtype=torch.uint8)
    scales = torch.randint(110, 130, (2, 6, 3), dtype=torch.uint8)
    yield ("gpt_oss", {"l.weight_blocks": blocks, "l.weight_scales": scales},
           convert_moe_packed_tensors(blocks, scales), {})


def mlx():
    import mlx.core as mx
    import numpy

    def to_torch(a):
        if a.dtype == mx.bfloat16:
            return torch.from_numpy(numpy.array(a.view(mx.uint16))).view(torch.bfloat16)
        return torch.from_numpy(numpy.array(a))

    for dtype, mx_dtype in zip(FLOATS, (mx.float16, mx.bfloat16, mx.float32)):
        for bits in (2, 3, 4, 5, 6, 8):
            for group in (32, 64, 128):
                parts = mx.quantize(mx.random.normal((8, 256)).astype(mx_dtype), group_size=group, bits=bits)
                weight = mx.dequantize(*parts, group_size=group, bits=bits)
                yield (f"mlx{bits}_{group}_{name_of(dtype)}",
                       dict(zip(("l.weight", "l.scales", "l.biases"), map(to_torch, parts))), to_torch(weight),
                       {"quantization": {"group_size": group, "bits": bits}})


def mlx_floats():
    import mlx.core as mx
    import numpy
    for mode in ("mxfp4", "nvfp4", "mxfp8"):
        for shape in ((8, 256), (3, 5, 96)):
            parts = mx.quantize(mx.random.normal(shape), mode=mode)
            weight = torch.from_numpy(numpy.array(mx.dequantize(*parts, mode=mode, dtype=mx.float32)))
            tensors = (torch.from_numpy(numpy.array(part)) for part in parts)
            yield f"mlx_{mode}_{len(shape)}", dict(zip(("l.weight", "l.scales"), tensors)), weight.bfloat16(), {}


def comfy_kitchen():
    import comfy_kitchen
    for shape in ((8, 64), (128, 128), (272, 416)):
        weight = torch.randn(shape).bfloat16()
        scale = weight.abs().max().float() / (6.0 * 448.0)
        codes, blocks = comfy_kitchen.quantize_nvfp4(weight, scale)
        state = torch.tensor(list(b'{"format": "nvfp4"}'), dtype=torch.uint8)
        yield (f"comfy_nvfp4_{shape[0]}", {"l.weight": codes, "l.weight_scale": blocks, "l.weight_scale_2": scale,
                                           "l.comfy_quant": state},
               comfy_kitchen.dequantize_nvfp4(codes, scale, blocks, torch.bfloat16)[:shape[0], :shape[1]], {})
        codes, blocks = comfy_kitchen.quantize_mxfp8(weight)
        state = torch.tensor(list(b'{"format": "mxfp8"}'), dtype=torch.uint8)
        yield (f"comfy_mxfp8_{shape[0]}", {"l.weight": codes, "l.weight_scale": blocks, "l.comfy_quant": state},
               comfy_kitchen.dequantize_mxfp8(codes, blocks, torch.bfloat16)[:shape[0], :shape[1]], {})


def torchao():
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import (Float8WeightOnlyConfig, Int8WeightOnlyConfig, IntxWeightOnlyConfig, PerAxis,
                                      quantize_)
    configs = {"fp8": Float8WeightOnlyConfig()}
    with contextlib.suppress(TypeError):
        configs["int8"] = Int8WeightOnlyConfig(version=2)
    with contextlib.suppress(TypeError):
        configs["intx"] = IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerAxis(0))
    for dtype in FLOATS[1:]:
        for kind, config in configs.items():
            model = torch.nn.Sequential(torch.nn.Linear(64, 8, bias=False, dtype=dtype))
            quantize_(model, config)
            weight = model[0].weight
            tensors, metadata = flatten_tensor_state_dict({"0.weight": weight.data})
            yield f"torchao_{kind}_{name_of(dtype)}", tensors, weight.dequantize(), {"metadata": metadata,
                                                                                    "pickle": model.state_dict()}


def quanto():
    from optimum import quanto
    for dtype in FLOATS:
        for module in (torch.nn.Linear(256, 16), torch.nn.Linear(100, 9, bias=False), torch.nn.Linear(64, 6),
                       torch.nn.Linear(96, 1), torch.nn.Linear(320, 3), torch.nn.Conv2d(3, 5, 3),
                       torch.nn.Conv2d(7, 1, 3)):
            for kind in ("qint2", "qint4", "qint8", "qfloat8_e4m3fn", "qfloat8_e5m2"):
                name = f"quanto_{kind}_{name_of(dtype)}_{'x'.join(map(str, module.weight.shape))}"
                model = torch.nn.ModuleDict({"l": copy.deepcopy(module).to(dtype)})
                quanto.quantize(model, weights=kind)
                quanto.freeze(model)
                tensors = {k: v for k, v in model.state_dict().items() if not k.endswith("bias") or "256" in name or
                           "64" in name or "320" in name}
                if "96" in name and kind in ("qint2", "qint4"):
                    tensors["l.bias"] = model.state_dict()["l.bias"]
                weight = model["l"].weight
                if hasattr(weight, "weight_qbits_tensor") and "TinyGemm" in type(weight).__name__:
                    weight = weight.weight_qbits_tensor()  # what is saved, instead of what a kernel wants
                yield name, tensors, weight.dequantize(), {}
    for zeropoint in (False, True):
        weight = torch.randn(24, 256)
        scale, shift = quanto.MaxOptimizer()(weight, quanto.qint4, axis=0, group_size=128, zeropoint=zeropoint)
        packed = quanto.quantize_weight(weight, quanto.qint4, 0, scale, shift, 128, optimized=False)
        yield (f"quanto_grouped{'_zeros' * zeropoint}",
               {"q_proj.weight._data._data": packed._data._data, "q_proj.weight._scale": scale,
                "q_proj.weight._shift": shift}, packed.dequantize(), {"hidden_size": 256})


def hqq():
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear
    for dtype in FLOATS:
        for bits in (8, 6, 5, 4, 3, 2, 1):
            for axis in (0, 1):
                for group in (16, 64, None):
                    for as_float in (False, True):
                        layer = torch.nn.Linear(64, 48, bias=False)
                        config = BaseQuantizeConfig(nbits=bits, group_size=group, axis=axis, view_as_float=as_float)
                        layer = HQQLinear(layer, config, compute_dtype=dtype, device="cpu")
                        name = f"hqq{bits}_{axis}_{group}_{name_of(dtype)}{'_view' * as_float}"
                        yield name, {"l." + k: v for k, v in layer.state_dict().items()}, layer.dequantize(), {}


def formulas():
    codes, scale = torch.randn(4, 8).to(torch.float8_e4m3fn), torch.tensor(0.000143)
    yield ("comfy", {"l.weight": codes, "l.scale_weight": scale, "scaled_fp8": codes[0, :2].clone()},
           codes.float() * scale, {})
    state = torch.tensor(list(b'{"format": "float8_e4m3fn"}'), dtype=torch.uint8)
    yield ("comfy_quant", {"l.weight": codes, "l.weight_scale": scale, "l.comfy_quant": state},
           codes.float() * scale, {})
    codes, scale = torch.randn(300, 400).to(torch.float8_e4m3fn), torch.rand(3, 4) * 0.01
    blocks = scale.repeat_interleave(128, 0)[:300].repeat_interleave(128, 1)[:, :400]
    yield "deepseek", {"l.weight": codes, "l.weight_scale_inv": scale}, codes.float() * blocks, {}
    inputs, outputs, group = 64, 96, 32
    for bits in (2, 3, 4, 8):
        for dtype in FLOATS[:2]:
            for in_order in (True, False):
                codes = torch.randint(0, 2**bits, (inputs, outputs))
                zeros = torch.randint(1, 2**bits, (inputs // group, outputs))
                scales = (torch.rand(inputs // group, outputs) * 0.1).to(dtype)
                groups = (torch.arange(inputs) // group)[slice(None) if in_order else torch.randperm(inputs)]
                weight = (scales[groups] * (codes - zeros[groups])).t()
                for version, stored in ((1, zeros - 1), (2, zeros)):
                    yield (f"gptq{bits}_v{version}_{name_of(dtype)}{'' if in_order else '_act'}",
                           {"l.qweight": pack_rows(codes, bits), "l.qzeros": pack_rows(stored.t(), bits).t(),
                            "l.scales": scales, "l.g_idx": groups.int()}, weight,
                           {"quantization_config": {"checkpoint_format": "gptq" if version == 1 else "gptq_v2"}})
    codes, zeros = torch.randint(0, 16, (inputs, outputs)), torch.randint(0, 16, (inputs // group, outputs))
    scales = (torch.rand(inputs // group, outputs) * 0.1).half()

    def interleave(m):
        order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
        return as_int32((m.reshape(m.shape[0], -1, 8)[:, :, order] << 4 * torch.arange(8)).sum(2))

    yield ("awq", {"l.qweight": interleave(codes), "l.qzeros": interleave(zeros), "l.scales": scales},
           ((codes - zeros.repeat_interleave(group, 0)) * scales.repeat_interleave(group, 0)).t(), {})


LIBRARIES = (bitsandbytes, compressed_tensors, transformers, mlx, torchao, formulas, mlx_floats, comfy_kitchen, quanto,
             hqq)
CORPUS = ("bnb_nf4_bfloat16_nested_64", "bnb_int8", "ct_fp8_channel_bfloat16", "ct_int8_zero_float16",
          "ct_pack4_zero_bfloat16", "ct_nvfp4_bfloat16", "ct_mxfp8_bfloat16", "gpt_oss", "hf_fp4", "mlx4_64_float16",
          "torchao_fp8_bfloat16", "comfy", "gptq4_v1_float16_act", "awq", "mlx_nvfp4_3", "mlx_mxfp8_2", "comfy_nvfp4_8",
          "comfy_mxfp8_8", "quanto_qint4_float16_16x256", "quanto_qint2_float32_9x100", "quanto_qint8_bfloat16_5x3x3x3",
          "quanto_qfloat8_e4m3fn_float16_6x64", "hqq4_1_16_bfloat16", "hqq3_0_16_float16", "hqq1_1_64_float32",
          "hqq2_0_16_bfloat16_view")


def digest(t):
    return hashlib.sha256(t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()).hexdigest()


def write_corpus(corpus, name, path, weight, facts, listing):
    folder, tensors = f"{corpus}/quantized/{name}", load_file(path)
    os.makedirs(folder, exist_ok=True)
    shutil.copy(path, folder)
    if facts:
        with open(f"{folder}/config.json", "w", encoding="utf-8") as f:
            json.dump(facts, f)
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
    names = sorted(tensors, key=lambda n: header[n]["data_offsets"])
    line = {"file": f"quantized/{name}/model.safetensors", "kind": "safetensors", "verdict": "ok",
            "producer": "safetensors", "tensors": [
                {"path": [n], "name": n, "dtype": name_of(tensors[n].dtype), "shape": list(tensors[n].shape),
                 "sha256": digest(tensors[n])} for n in names]}
    if "__metadata__" in header:
        line["metadata"] = header["__metadata__"]
    listing.append(line)
    print(f"{digest(weight)}  {name}")


def check_file(checks, name, weight, path):
    out = checks.path("out.safetensors")
    done = checks.run("convert", "--dequantize", path, out)
    got = [] if done is None else [v for k, v in load_file(out).items() if not k.endswith("bias")]
    # bitsandbytes gives 0 or -0 for one code of fp4, depending on the width
    checks.expect(len(got) == 1 and got[0].dtype == weight.dtype and got[0].shape == weight.shape and
                  digest(got[0] + 0.0) == digest(weight + 0.0), name)


def main():
    corpus = sys.argv[3] if sys.argv[2:3] == ["--corpus"] else None
    listing = []
    torch.manual_seed(34)
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(os.path.abspath(sys.argv[1]), folder)
        path, config = checks.path("model.safetensors"), checks.path("config.json")
        for library in LIBRARIES:
            try:
                files = list(library())
            except ImportError as error:
                print(f"oracle-quantized: {library.__name__} is not checked: {error}")
                continue
            for name, tensors, weight, facts in files:
                pickle = facts.pop("pickle", None)
                save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata=facts.pop("metadata", None))
                with open(config, "w", encoding="utf-8") as f:
                    json.dump(facts, f)
                if corpus and name in CORPUS:
                    write_corpus(corpus, name, path, weight, facts, listing)
                check_file(checks, name, weight, path)
                if pickle:
                    torch.save(pickle, checks.path("model.pt"))
                    check_file(checks, name + " in a pickle", weight, checks.path("model.pt"))
    if corpus:
        with open(f"{corpus}/truth/quantized.jsonl", "w", encoding="utf-8") as f:
            f.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in listing)
    checks.print_summary("oracle-quantized")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
