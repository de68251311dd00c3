# A training checkpoint against weights taken from it; a root that is nowhere is told.
ckpt convert -q data/train.pt w.safetensors
ckpt diff --root auto data/train.pt w.safetensors
ckpt strip -q --auto w.safetensors -o s.safetensors
ckpt diff --root state_dict --ignore-prefix module. data/train.pt s.safetensors
ckpt diff --root nowhere data/train.pt w.safetensors
