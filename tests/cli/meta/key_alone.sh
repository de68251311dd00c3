# A key alone is no change: the answer is about the key, not about a missing output.
ckpt convert -q data/train.pt w.safetensors
ckpt meta w.safetensors format; echo $?
