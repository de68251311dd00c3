# Natural order, the whole last; --total and --xxh3.
ckpt hash corpus/torch/t26/state_dict.pt
ckpt hash -t corpus/torch/t26/state_dict.pt corpus/torch/t26/tied.pt
ckpt hash --xxh3 --total corpus/torch/t26/state_dict.pt
