# There and back by suffix; -, --to, -o; the weights are found and named.
ckpt convert data/train.pt a.safetensors
ckpt convert a.safetensors b.pt
ckpt diff a.safetensors b.pt
ckpt convert --to=torch-zip a.safetensors c
ckpt ls c | wc -l
ckpt convert a.safetensors -o d.pt
ckpt convert a.safetensors - | ckpt ls - | wc -l
cmp b.pt d.pt
