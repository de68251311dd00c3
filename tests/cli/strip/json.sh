# strip --json prints changed and unchanged files as its schema describes.
ckpt strip --json --auto corpus/torch/t26/dp_state_dict.pt -o a.pt
ckpt strip --allow-none --json x. corpus/torch/t26/tied.pt -o b.pt
ckpt strip --json --check --auto corpus/torch/t26/swa.pt
