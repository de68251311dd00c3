# ls goes on after a file that cannot be read, and exits 2 at the end.
ckpt ls corpus/torch/t26/tied.pt missing.pt corpus/torch/t26/zero_dim.pt
