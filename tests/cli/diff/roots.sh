# --root compares a training checkpoint with weights taken from it; a root that neither file has is an error.
ckpt convert -q data/train.pt w.safetensors
ckpt diff --root auto data/train.pt w.safetensors
ckpt strip -q --auto w.safetensors -o s.safetensors
ckpt diff --root state_dict --ignore-prefix module. data/train.pt s.safetensors
# In a file of several networks and their optimizers, --root auto selects all of the top level.
ckpt convert -q corpus/torch/t215/many_models.pt many.safetensors
ckpt diff --root auto corpus/torch/t215/many_models.pt many.safetensors
ckpt diff --root nowhere data/train.pt w.safetensors
