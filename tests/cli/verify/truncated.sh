# verify reports a truncated file of each format.
ckpt convert -q --root state_dict data/train.pt s.safetensors
head -c 9000 s.safetensors >cut.safetensors
ckpt verify cut.safetensors
head -c 30000 data/train.pt >cut.pt
ckpt verify cut.pt
ckpt verify corpus/torch/legexp/e_truncated.pt corpus/torch/legexp/d_trailing_junk.pt
ckpt verify corpus/torch/t215/failed_save_leftover.pt
