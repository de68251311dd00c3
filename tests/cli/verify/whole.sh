# Nothing is wrong: a line with what was looked at, nothing under --quiet; no checksums in safetensors is a notice.
ckpt verify data/train.pt
ckpt convert -q --root state_dict data/train.pt s.safetensors
ckpt verify s.safetensors
ckpt verify -q data/train.pt s.safetensors
ckpt verify --json data/train.pt s.safetensors
ckpt verify -q - <s.safetensors
