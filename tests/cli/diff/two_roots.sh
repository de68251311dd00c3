# --root-a and --root-b give each file its own root; a root that its file lacks is refused, even if the other file has it.
ckpt convert -q --root state_dict data/train.pt sd.safetensors
ckpt diff --root-a state_dict.module data/train.pt --root-b module sd.safetensors; echo $?
ckpt diff --root-a state_dict --root-b auto data/train.pt data/train.pt; echo $?
ckpt diff --root-a optimizer.param_groups.0 --root-b optimizer.param_groups.0 data/train.pt data/train.pt; echo $?
ckpt diff --root-a state_dict --root-b nowhere data/train.pt sd.safetensors; echo $?
ckpt diff --root state_dict --root-b nowhere data/train.pt sd.safetensors; echo $?
ckpt diff --root state_dict data/train.pt sd.safetensors; echo $?
