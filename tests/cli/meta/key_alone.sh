# If a key has no value, the error is about that key, not about a missing output.
ckpt convert -q data/train.pt w.safetensors
ckpt meta w.safetensors format; echo $?
