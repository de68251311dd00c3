# stat reads standard input, and goes on after a file that cannot be read.
cat corpus/torch/t215/zero_dim.pt | ckpt stat -
ckpt stat nowhere.pt corpus/torch/t215/zero_dim.pt; echo $?
