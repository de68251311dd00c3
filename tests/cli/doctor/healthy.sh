# doctor prints one line for a healthy file, and nothing with --quiet.
ckpt convert -q --root state_dict data/train.pt w.pt
ckpt strip -q --auto w.pt -o h.pt
ckpt convert -q h.pt h.safetensors
ckpt doctor h.pt h.safetensors
ckpt doctor -q h.pt h.safetensors
ckpt doctor --json h.pt
ckpt doctor --finite corpus/torch/t215/state_dict.pt
