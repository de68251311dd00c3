# The schema: exact integers, null where there is nothing to tell, a tie counted once.
ckpt stat --json corpus/torch/t215/dtype_int64.pt corpus/torch/t215/tied.pt corpus/torch/t215/empty.pt
ckpt stat --json corpus/torch/t215/meta.pt corpus/torch/t215/dtype_complex128.pt
