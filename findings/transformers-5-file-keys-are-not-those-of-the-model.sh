#!/bin/sh
# transformers 5.24.0: the keys that save_pretrained writes are not those of model.state_dict(). A mixture of experts has
# two stacked tensors a layer in memory, and a matrix for each expert and projection in the file, as version 4 had. So
# torch's load_state_dict with the model's own file reports all experts as missing, and from_pretrained loads it. A plain
# dict of model.state_dict(), saved by safetensors, has the stacked ones: which layout a file has depends on who wrote it.
#
# Output seen:
#   model gate_up_proj [4, 8, 8]
#   model down_proj [4, 8, 4]
#   file 12 tensors, such as 0.down_proj.weight [8, 4]
#   load_state_dict 2 missing, 12 unexpected
#   from_pretrained equal True
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --only-binary :all: torch==2.15.0 numpy==2.4.6 safetensors==0.8.0 \
    transformers==5.24.0
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - "$folder" >"$folder/got" 2>/dev/null <<'END'
import sys

import torch
from safetensors.torch import load_file
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

torch.manual_seed(0)
config = Qwen3MoeConfig(
    vocab_size=16, hidden_size=8, intermediate_size=8, moe_intermediate_size=4, num_hidden_layers=1,
    num_attention_heads=2, num_key_value_heads=2, head_dim=4, num_experts=4, num_experts_per_tok=2,
)
model = Qwen3MoeForCausalLM(config)
experts = {name.split(".experts.")[1]: value for name, value in model.state_dict().items() if ".experts." in name}
for name, value in experts.items():
    print("model", name, list(value.shape))
model.save_pretrained(sys.argv[1] + "/saved")
saved = load_file(sys.argv[1] + "/saved/model.safetensors")
names = sorted(name for name in saved if ".experts." in name)
print(f"file {len(names)} tensors, such as {names[0].split('.experts.')[1]} {list(saved[names[0]].shape)}")
result = torch.nn.Module.load_state_dict(model, saved, strict=False)
print(f"load_state_dict {len(result.missing_keys)} missing, {len(result.unexpected_keys)} unexpected")
again = Qwen3MoeForCausalLM.from_pretrained(sys.argv[1] + "/saved").state_dict()
print("from_pretrained equal", all(torch.equal(value, again[name]) for name, value in model.state_dict().items()))
END
sed -n '/^# Output seen/,/^set -eu/s/^#   //p' "$0" | diff - "$folder/got"
echo 'as seen'
