# hash --json prints digests of tensors and of the file as its schema describes.
ckpt hash --json corpus/torch/t26/tied.pt
ckpt hash --json --xxh3 corpus/torch/t26/zero_dim.pt
ckpt hash --json corpus/torch/t26/meta.pt
