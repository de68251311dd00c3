# The name - stands for standard input, a pipe or a file.
ckpt ls - <corpus/torch/t26/tied.pt
cat corpus/torch/t26/tied.pt | ckpt ls --json -
