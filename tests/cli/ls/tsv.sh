# ls --tsv prints name, dtype, bytes and shape, so that sort -k3n works; -l adds columns.
ckpt ls --tsv corpus/torch/t26/tied.pt
ckpt ls --tsv -l corpus/torch/t26/tied.pt
ckpt ls --tsv data/train.pt | sort -k3n | tail -n 1
# --csv quotes what holds a comma or a quote; --header names the columns once, "file" too where lines begin with it.
ckpt ls --csv --header -l corpus/torch/t26/tied.pt data/train.pt | head -n 5
ckpt ls --csv --values -g '*lr*' -g '*best*' data/train.pt
ckpt ls --header --tsv -g 'none' data/train.pt corpus/torch/t26/tied.pt
ckpt ls --header -g 'state_dict.*fc*' data/train.pt
ckpt ls --csv --tsv data/train.pt; echo "$?"
