# ls --tsv prints name, dtype, bytes and shape, so that sort -k3n works; -l adds columns.
ckpt ls --tsv corpus/torch/t26/tied.pt
ckpt ls --tsv -l corpus/torch/t26/tied.pt
ckpt ls --tsv data/train.pt | sort -k3n | tail -n 1
