# stat --json prints exact integers, null where a tensor has no numbers, and a tie only once, as its schema describes.
ckpt stat --json corpus/torch/t215/dtype_int64.pt corpus/torch/t215/tied.pt corpus/torch/t215/empty.pt
ckpt stat --json corpus/torch/t215/meta.pt corpus/torch/t215/dtype_complex128.pt
