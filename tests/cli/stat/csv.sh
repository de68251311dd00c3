# stat --csv and --tsv have one line that names the columns, also with several files.
ckpt stat --csv --header corpus/torch/t26/tied.pt corpus/torch/t26/dtype_bool.pt 2>&1
ckpt stat --header -g '*fc*' data/train.pt
ckpt stat --json --header data/train.pt; echo "$?"
