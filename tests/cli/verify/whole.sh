# For an intact file verify prints what it read, and nothing with --quiet; safetensors has no CRCs, which is noted.
ckpt verify data/train.pt
ckpt convert -q --root state_dict data/train.pt s.safetensors
ckpt verify s.safetensors
ckpt verify -q data/train.pt s.safetensors
ckpt verify --json data/train.pt s.safetensors
ckpt verify -q - <s.safetensors
