"""Compares the recipes of `ckpt edit` with the libraries that define the layouts, byte by byte, in both directions.

    recipes.py CKPT [PYTHON...]      each PYTHON has transformers, one of them version 4, another version 5
    recipes.py --make FOLDER [FROM]  writes tiny random models, and what transformers makes of their weights, to FOLDER;
                                     FROM has those that version 4 made
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 48}
EXPERTS = ("mixtral", "qwen3_moe", "deepseek_v3")


# What transformers makes of the weights

def make(folder, made_by_v4):
    import transformers
    torch.manual_seed(0)
    make_experts(transformers, folder, made_by_v4)
    make_llama(transformers, folder)
    make_gpt2(transformers, folder)
    make_neox(transformers, folder)
    make_falcon(transformers, folder)
    make_megatron(folder)


def randomize(model):
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.randn_like(tensor))
    return model.eval()


def make_experts(transformers, folder, made_by_v4):
    t = transformers
    latent = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8, "n_group": 1,
              "topk_group": 1, "first_k_dense_replace": 1, "n_routed_experts": 12, "num_experts_per_tok": 2}
    configs = {"mixtral": (t.MixtralConfig, t.MixtralForCausalLM, {"num_local_experts": 11, "num_key_value_heads": 2}),
               "qwen3_moe": (t.Qwen3MoeConfig, t.Qwen3MoeForCausalLM, {"num_experts": 12, "num_key_value_heads": 2, "head_dim": 8}),
               "deepseek_v3": (t.DeepseekV3Config, t.DeepseekV3ForCausalLM, latent)}
    for name, (config, model, sizes) in configs.items():
        if not made_by_v4:
            made = randomize(model(config(**SIZES, intermediate_size=24, moe_intermediate_size=16, **sizes)))
            made.save_pretrained(f"{folder}/{name}", max_shard_size="40KB")
            continue
        # version 5: the weights of version 4, as it writes them by default, and as it has them in memory
        loaded = model.from_pretrained(f"{made_by_v4}/{name}")
        loaded.save_pretrained(f"{folder}/{name}_v4")
        loaded.save_pretrained(f"{folder}/{name}_v5", max_shard_size="40KB", save_original_format=False)
        make_fp8(model, f"{made_by_v4}/{name}", f"{folder}/{name}_fp8")


def make_fp8(model, start, folder):
    """Writes the weights in START in FP8, as DeepSeek does: each has weight_scale_inv, a number for each block of 8 x 8 (of
    128 x 128 there); and what transformers 5 makes of them, which it does only with a GPU, unless it is not asked."""
    from transformers.quantizers.quantizer_finegrained_fp8 import FineGrainedFP8HfQuantizer
    state = {}
    for name, tensor in load(start).items():
        if tensor.ndim != 2 or name.endswith(("embed_tokens.weight", "lm_head.weight", "mlp.gate.weight", "moe.gate.weight")):
            state[name] = tensor
            continue
        state[name] = tensor.to(torch.float8_e4m3fn)
        state[f"{name}_scale_inv"] = torch.rand([-(-size // 8) for size in tensor.shape])
    os.makedirs(folder)
    save_file(state, f"{folder}/model.safetensors", metadata={"format": "pt"})
    with open(f"{start}/config.json", encoding="utf-8") as text:
        config = json.load(text)
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [8, 8], "activation_scheme": "dynamic"}
    if config["model_type"] == "mixtral":
        del config["moe_intermediate_size"]  # which it has not, but the experts in FP8 would take
    write_json(f"{folder}/config.json", config)
    FineGrainedFP8HfQuantizer.validate_environment = lambda *_, **__: None
    model.from_pretrained(folder).save_pretrained(f"{folder}_v5", save_original_format=False)


def make_llama(transformers, folder):
    for name, more in {"llama": {}, "llama_mha": {"num_key_value_heads": 4}, "llama_tied": {"tie_word_embeddings": True}}.items():
        config = transformers.LlamaConfig(**{**SIZES, "num_key_value_heads": 2, "intermediate_size": 24, **more})
        model = randomize(transformers.LlamaForCausalLM(config))
        model.save_pretrained(f"{folder}/{name}")
        tokens = torch.randint(0, SIZES["vocab_size"], (1, 9))
        with torch.no_grad():
            save_file({"tokens": tokens, "logits": model(tokens).logits}, f"{folder}/{name}.expected")
    randomize(transformers.LlamaModel(config)).save_pretrained(f"{folder}/llama_base")


def make_gpt2(transformers, folder):
    from transformers.pytorch_utils import Conv1D
    for name, model, more in (("gpt2", transformers.GPT2LMHeadModel, {}), ("gpt2_base", transformers.GPT2Model, {}),
                              ("gpt2_cross", transformers.GPT2LMHeadModel, {"add_cross_attention": True})):
        made = randomize(model(transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=48, n_positions=16, **more)))
        made.save_pretrained(f"{folder}/{name}")
        save_file({f"{path}.weight": module.weight.detach().t().contiguous()
                   for path, module in made.named_modules() if isinstance(module, Conv1D)}, f"{folder}/{name}.expected")


def make_neox(transformers, folder):
    from transformers.models.gpt_neox import modeling_gpt_neox as neox
    config = transformers.GPTNeoXConfig(**SIZES, intermediate_size=24, attn_implementation="eager")
    for name, model in (("neox", transformers.GPTNeoXForCausalLM), ("neox_base", transformers.GPTNeoXModel)):
        made = randomize(model(config))
        made.save_pretrained(f"{folder}/{name}")
        expected, seen = {}, {}
        rotate, attend = neox.apply_rotary_pos_emb, neox.eager_attention_forward
        for path, module in made.named_modules():
            if not isinstance(module, neox.GPTNeoXAttention):
                continue
            # the attention of the identity matrix splits the transposed weight, that of a zero the bias
            for what, states, bias in (("weight", torch.eye(32), torch.zeros(96)),
                                       ("bias", torch.zeros(1, 32), module.query_key_value.bias)):
                def note_rotated(q, k, *args, **kwargs):
                    seen["q"], seen["k"] = q, k
                    return rotate(q, k, *args, **kwargs)

                def note_value(module, q, k, v, *args, **kwargs):
                    seen["v"] = v
                    return attend(module, q, k, v, *args, **kwargs)
                neox.apply_rotary_pos_emb, neox.eager_attention_forward = note_rotated, note_value
                kept, module.query_key_value.bias = module.query_key_value.bias, torch.nn.Parameter(bias.detach().clone())
                length = states.shape[0]
                positions = torch.zeros(1, length, 2)
                with torch.no_grad():
                    module(states[None], attention_mask=None, position_embeddings=(positions, positions))
                module.query_key_value.bias = kept
                for which in "qkv":
                    rows = seen[which][0].transpose(0, 1).reshape(length, -1)  # [heads, length, head_dim] before
                    rows = rows.t() if what == "weight" else rows[0]
                    expected[f"{path}.{which}_proj.{what}"] = rows.contiguous()
        neox.apply_rotary_pos_emb, neox.eager_attention_forward = rotate, attend
        save_file(expected, f"{folder}/{name}.expected")


def make_falcon(transformers, folder):
    from transformers.models.falcon.modeling_falcon import FalconAttention
    kinds = {"falcon_rw": {"multi_query": False, "alibi": True, "bias": True}, "falcon_7b": {"multi_query": True, "num_kv_heads": 4},
             "falcon_40b": {"new_decoder_architecture": True, "num_kv_heads": 2, "multi_query": True},
             "falcon_each": {"new_decoder_architecture": True, "multi_query": True}}
    for name, more in kinds.items():
        config = transformers.FalconConfig(**SIZES, **more)
        made = randomize(transformers.FalconForCausalLM(config))
        made.save_pretrained(f"{folder}/{name}")
        expected = {}
        for path, module in made.named_modules():
            if not isinstance(module, FalconAttention):
                continue
            for what, fused in module.query_key_value.named_parameters():
                columns = fused.detach().t() if what == "weight" else fused.detach()[None]
                for which, part in zip("qkv", module._split_heads(columns[None])):
                    if which != "q":  # which has the heads of k and v once for each head that shares them
                        part = part[:, :, ::part.shape[2] // kv_heads(config)]
                    rows = part.reshape(columns.shape[0], -1)
                    expected[f"{path}.{which}_proj.{what}"] = (rows.t() if what == "weight" else rows[0]).contiguous()
        save_file(expected, f"{folder}/{name}.expected")


def kv_heads(config):
    if config.new_decoder_architecture:
        return config.num_kv_heads
    return 1 if config.multi_query else config.num_attention_heads


def make_megatron(folder):
    """Without groups, as transformers 4 converts Megatron's GPT-2 of each checkpoint_version; the loaders of Megatron-LM
    define the form with groups."""
    try:
        from transformers.models.megatron_gpt2 import checkpoint_reshaping_and_interoperability as megatron
    except ImportError:
        return
    for name, module, version in (("megatron", "self_attention.linear_qkv", 3.0), ("megatron_v1", "attention.query_key_value", 1.0),
                                  ("megatron_v0", "attention.query_key_value", 0.0)):
        fused, expected = {}, {}
        for i in range(2):
            place = f"decoder.layers.{i}.{module.split('.')[0]}"
            for what, shape in (("weight", (96, 32)), ("bias", (96,))):
                tensor = torch.randn(shape)
                fused[f"decoder.layers.{i}.{module}.{what}"] = tensor
                ordered = megatron.megatron_to_transformers_fix_query_key_value_ordering(tensor, version, 3, 4, 8)
                for which, part in zip("qkv", ordered.chunk(3)):
                    expected[f"{place}.{which}_proj.{what}"] = part.contiguous()
            fused[f"decoder.layers.{i}.{module}.layer_norm_weight"] = torch.randn(32)
        os.makedirs(f"{folder}/{name}")
        save_file(fused, f"{folder}/{name}/model.safetensors")
        save_file(expected, f"{folder}/{name}.expected")
        write_json(f"{folder}/{name}/config.json",
                   {"num_attention_heads": 4, "hidden_size": 32, "tensor_model_parallel_size": 1})


# What ckpt makes of them

def write_json(path, config):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(config, out)


def load(path):
    """Returns the tensors of a file or of the files in a folder."""
    if os.path.isfile(path):
        return load_file(path)
    return {name: tensor for shard in sorted(glob.glob(f"{path}/*.safetensors")) for name, tensor in load_file(shard).items()}


def are_equal(left, right):
    def is_equal(a, b):
        same = a.dtype == b.dtype and a.shape == b.shape
        return same and a.contiguous().view(-1).view(torch.uint8).equal(b.contiguous().view(-1).view(torch.uint8))
    return left.keys() == right.keys() and all(is_equal(tensor, right[name]) for name, tensor in left.items())


class Recipes:
    def __init__(self, ckpt, folder):
        self.ckpt, self.folder, self.made = ckpt, folder, 0
        self.passed = self.failed = 0

    def edit(self, inputs, recipe, *options, suffix=".safetensors"):
        """Applies RECIPE to INPUTS, and returns the path of the output, which has the name of the input's config."""
        self.made += 1
        folder = f"{self.folder}/{self.made}"
        os.makedirs(folder)
        out = f"{folder}/model{suffix}"
        done = subprocess.run([self.ckpt, "edit", *inputs, "--recipe", recipe, "-q", "--no-sync", "-o", out, *options],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stderr)
        place = inputs[0] if os.path.isdir(inputs[0]) else os.path.dirname(inputs[0])
        config = f"{place}/config.json"
        if os.path.exists(config):
            with open(config, encoding="utf-8") as text:
                write_json(f"{folder}/config.json", json.load(text))
        return out

    def expect(self, ok, title):
        self.passed += bool(ok)
        self.failed += not ok
        if not ok:
            print("FAILED", title)

    def expect_equal(self, path, expected, title):
        self.expect(os.path.exists(path) and are_equal(load(path), expected), title)

    def both_ways(self, name, forward, back, expected, replaced):
        """Checks that FORWARD puts EXPECTED in place of the tensors REPLACED of the model NAME, and that BACK undoes it."""
        start = load(name)
        state = {key: tensor for key, tensor in start.items() if not replaced(key)}
        out = self.edit([name], forward)
        self.expect_equal(out, {**state, **expected}, f"{forward} of {name}")
        self.expect_equal(self.edit([out], back), start, f"{back} of {name}")


def check_experts(checks, v4, v5):
    for name in EXPERTS:
        family = "mixtral" if name == "mixtral" else "moe-experts"
        for before in (f"{v4}/{name}", f"{v5}/{name}_v4"):
            stacked = load(f"{v5}/{name}_v5")
            out = checks.edit([before], f"{family}-v4-to-v5")
            checks.expect_equal(out, stacked, f"{family}-v4-to-v5 of {before}")
            checks.expect(any(key.endswith("experts.gate_up_proj") for key in stacked), f"{name} is stacked")
        checks.expect_equal(checks.edit([f"{v5}/{name}_v5"], f"{family}-v5-to-v4"), load(f"{v4}/{name}"), f"{family}-v5-to-v4 of {name}")
        stacked = load(f"{v5}/{name}_fp8_v5")
        checks.expect(any(key.endswith("experts.gate_up_proj_scale_inv") for key in stacked), f"{name} has stacked scales")
        checks.both_ways(f"{v5}/{name}_fp8", f"{family}-v4-to-v5", f"{family}-v5-to-v4", stacked, lambda _: True)


# LLaMA as Meta has it: pairs of neighbours are rotated, and each file has a part of the heads.

META = {"input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attention.wq",
        "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv", "self_attn.o_proj": "attention.wo",
        "mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3"}


def to_meta(state, config):
    meta = {}
    for name, tensor in state.items():
        name = name.removeprefix("model.")
        heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}.get(name.split(".")[-2])
        if heads:
            halves = tensor.view(heads, 2, -1, tensor.shape[1])
            tensor = torch.stack([halves[:, 0], halves[:, 1]], dim=2).reshape(tensor.shape)
        for theirs, own in META.items():
            name = name.replace(f".{theirs}.", f".{own}.")
        name = name.replace("embed_tokens.", "tok_embeddings.").replace("lm_head.", "output.")
        meta[name] = tensor
    return meta


def cut(meta, version, count):
    """Returns the states of COUNT files."""
    def dim(name):
        if name.endswith("norm.weight"):
            return None
        if name.startswith("tok_embeddings"):
            return 1 if version == 2 else 0
        return 1 if ".wo." in name or ".w2." in name else 0
    return [{name: tensor.clone() if dim(name) is None else tensor.chunk(count, dim(name))[i].clone()
             for name, tensor in meta.items()} for i in range(count)]


def meta_logits(meta, config, tokens):
    """The forward pass of Meta's LLaMA: neighbours are the real and imaginary part of a number, which is rotated."""
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    x = meta["tok_embeddings.weight"][tokens[0]]
    size = x.shape[1] // heads
    angles = torch.outer(torch.arange(len(x)).double(), 10000.0 ** (-torch.arange(0, size, 2).double() / size))
    turns = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)[:, None]

    def norm(x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]) * weight

    def rotate(x):
        return torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:2], -1, 2)) * turns).flatten(2)
    for i in range(config["num_hidden_layers"]):
        def weight(name, i=i):
            return meta[f"layers.{i}.{name}.weight"]
        h = norm(x, weight("attention_norm"))
        q, k, v = ((h @ weight(f"attention.w{which}").t()).view(len(x), -1, size) for which in "qkv")
        q, k = rotate(q), rotate(k)
        k, v = (part.repeat_interleave(heads // kv, dim=1) for part in (k, v))
        y = torch.nn.functional.scaled_dot_product_attention(*(part.transpose(0, 1) for part in (q, k, v)), is_causal=True)
        x = x + y.transpose(0, 1).reshape(len(x), -1) @ weight("attention.wo").t()
        h = norm(x, weight("ffn_norm"))
        gated = torch.nn.functional.silu(h @ weight("feed_forward.w1").t()) * (h @ weight("feed_forward.w3").t())
        x = x + gated @ weight("feed_forward.w2").t()
    return norm(x, meta["norm.weight"]) @ meta.get("output.weight", meta["tok_embeddings.weight"]).t()


def check_llama(checks, models):
    for name in ("llama", "llama_mha", "llama_tied", "llama_base"):
        start = load(f"{models}/{name}")
        with open(f"{models}/{name}/config.json", encoding="utf-8") as text:
            config = json.load(text)
        meta = to_meta(start, config)
        if name != "llama_base":
            expected = load_file(f"{models}/{name}.expected")
            logits = meta_logits(meta, config, expected["tokens"])
            checks.expect(torch.allclose(logits, expected["logits"][0], atol=1e-3, rtol=1e-3), f"the logits of Meta's {name}")
        for version in (2, 3):
            for count in (1, 2) if config["num_key_value_heads"] == 2 else (1, 2, 4):
                check_llama_files(checks, f"{models}/{name}", start, cut(meta, version, count), config, version)


def check_llama_files(checks, model, start, files, config, version):
    count, title = len(files), f"llama{version} of {model} in {len(files)} files"
    folder = f"{checks.folder}/{checks.made}_{count}_{version}"
    os.makedirs(folder)
    params = {"dim": config["hidden_size"], "n_heads": config["num_attention_heads"], "n_kv_heads": config["num_key_value_heads"]}
    if params["n_heads"] == params["n_kv_heads"]:
        del params["n_kv_heads"]  # as in the models of LLaMA 2 without groups
    write_json(f"{folder}/params.json", params)
    for i, state in enumerate(files):
        torch.save({**state, "rope.freqs": torch.ones(4)}, f"{folder}/consolidated.{i:02}.pth")
    paths = sorted(glob.glob(f"{folder}/*.pth"))
    # a base model of transformers has no prefix; Meta's has none in any case
    expected = {name if name.startswith(("model.", "lm_head.")) else f"model.{name}": tensor for name, tensor in start.items()}
    checks.expect_equal(checks.edit(paths, f"llama{version}-meta-to-hf"), expected, f"{title}: meta-to-hf")
    for i, state in enumerate(files):
        shard = ["-D", f"shards={count}", "-D", f"shard={i}"]
        out = checks.edit([model], f"llama{version}-hf-to-meta", *shard, suffix=".pth")
        loaded = torch.load(out) if os.path.exists(out) else {}
        checks.expect(are_equal(loaded, state), f"{title}: hf-to-meta, shard {i}")


def check_megatron_groups(checks):
    """q of a group of heads, then their k and v: what the loader of Megatron-LM makes of q, k and v of a model with groups."""
    folder = f"{checks.folder}/groups"
    os.makedirs(folder)
    write_json(f"{folder}/config.json", {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32})
    q, k, v = torch.randn(32, 32), torch.randn(16, 32), torch.randn(16, 32)
    fused = torch.cat([q.view(2, 16, 32), k.view(2, 8, 32), v.view(2, 8, 32)], dim=1).reshape(64, 32)
    place = "decoder.layers.0.self_attention"
    save_file({f"{place}.linear_qkv.weight": fused}, f"{folder}/model.safetensors")
    expected = {f"{place}.q_proj.weight": q, f"{place}.k_proj.weight": k, f"{place}.v_proj.weight": v}
    checks.both_ways(folder, "megatron-qkv-split", "megatron-qkv-fuse", expected, lambda name: "linear_qkv" in name)


def check_megatron_ranks(checks):
    """In version 0, each tensor-parallel rank has q, then k, then v of its heads: two ranks, joined as they are."""
    folder = f"{checks.folder}/ranks"
    os.makedirs(folder)
    write_json(f"{folder}/config.json", {"num_attention_heads": 4, "hidden_size": 32, "tensor_model_parallel_size": 2})
    parts = [torch.randn(32, 32) for _ in "qkv"]
    fused = torch.cat([part.chunk(2)[rank] for rank in range(2) for part in parts])
    save_file({"layers.0.attention.query_key_value.weight": fused}, f"{folder}/model.safetensors")
    expected = {f"layers.0.attention.{which}_proj.weight": part for which, part in zip("qkv", parts)}
    checks.both_ways(folder, "megatron-v0-qkv-split", "megatron-v0-qkv-fuse", expected, lambda _: True)


def check_made(checks, models):
    """Checks what a version of transformers has made in the folder MODELS."""
    check_llama(checks, models)
    for name in ("gpt2", "gpt2_base", "gpt2_cross"):
        expected = load_file(f"{models}/{name}.expected")
        start = load(f"{models}/{name}")
        checks.expect(expected.keys() <= start.keys(), f"the names of {name}")
        checks.both_ways(f"{models}/{name}", "gpt2-conv1d-to-linear", "gpt2-linear-to-conv1d", expected, lambda _: False)
    for name in ("neox", "neox_base", "falcon_rw", "falcon_7b", "falcon_40b", "falcon_each"):
        recipe = f"{name.split('_')[0]}-qkv"
        checks.both_ways(f"{models}/{name}", f"{recipe}-split", f"{recipe}-fuse", load_file(f"{models}/{name}.expected"),
                         lambda key: "query_key_value" in key)
    for name, recipe in (("megatron", "megatron-qkv"), ("megatron_v1", "megatron-v1-qkv"), ("megatron_v0", "megatron-v0-qkv")):
        if os.path.exists(f"{models}/{name}"):
            checks.both_ways(f"{models}/{name}", f"{recipe}-split", f"{recipe}-fuse", load_file(f"{models}/{name}.expected"),
                             lambda key: key.endswith(("linear_qkv.weight", "linear_qkv.bias", "value.weight", "value.bias")))


def find_versions(pythons):
    """Returns {major version of transformers: Python that has it}."""
    versions = {}
    for python in pythons:
        code = "from importlib.metadata import version; import torch, safetensors.torch; print(version('transformers'))"
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        if not done.returncode:
            versions.setdefault(done.stdout.split(".")[0], python)
    return versions


def main(ckpt, pythons):
    versions = find_versions([python for python in pythons if os.path.exists(python)] + [sys.executable])
    if not {"4", "5"} <= versions.keys():
        print(f"oracle-recipes skipped: no Python with transformers 4 and none with 5: found {sorted(versions)} (make oracle-env)")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        v4, v5 = f"{folder}/v4", f"{folder}/v5"
        for python, words in ((versions["4"], [v4]), (versions["5"], [v5, v4])):
            os.makedirs(words[0])
            subprocess.run([python, __file__, "--make", *words], check=True, capture_output=not os.environ.get("VERBOSE"))
        checks = Recipes(ckpt, folder)
        check_experts(checks, v4, v5)
        for models in (v4, v5):
            check_made(checks, models)
        check_megatron_groups(checks)
        check_megatron_ranks(checks)
        print(f"oracle-recipes: {checks.passed} passed, {checks.failed} failed")
        return checks.failed != 0


if __name__ == "__main__":
    if sys.argv[1] == "--make":
        make(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
    else:
        sys.exit(main(sys.argv[1], sys.argv[2:]))
