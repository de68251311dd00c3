# The suffix of OUT, also of -o OUT, or --to chooses the format; converting there and back keeps all tensors.
ckpt convert data/train.pt a.safetensors
ckpt convert a.safetensors b.pt
ckpt diff a.safetensors b.pt
ckpt convert --to=torch-zip a.safetensors c
ckpt ls c | wc -l
ckpt convert a.safetensors -o d.pt
ckpt convert a.safetensors - | ckpt ls - | wc -l
cmp b.pt d.pt
