# hash prints tensors in natural order and the digest of the file last; -t prints only that, --xxh3 a faster digest.
ckpt hash corpus/torch/t26/state_dict.pt
ckpt hash -t corpus/torch/t26/state_dict.pt corpus/torch/t26/tied.pt
ckpt hash --xxh3 --total corpus/torch/t26/state_dict.pt
