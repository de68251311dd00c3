# One that cannot be read does not stop the others; exit 2 at the end.
ckpt ls corpus/torch/t26/tied.pt missing.pt corpus/torch/t26/zero_dim.pt
