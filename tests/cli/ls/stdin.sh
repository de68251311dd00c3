# The name - stands for standard input, a pipe or a file.
ckpt ls - <corpus/torch/t26/tied.pt
cat corpus/torch/t26/tied.pt | ckpt ls --json -
# It is read once.
for command in ls info hash stat verify doctor scan diff; do ckpt $command - - <corpus/torch/t26/tied.pt 2>&1; echo "$command: $?"; done
ckpt ls --json - data/train.pt - <corpus/torch/t26/tied.pt 2>&1
ckpt convert --to npz - - <corpus/torch/t26/tied.pt | ckpt ls -
