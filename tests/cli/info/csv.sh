# info --csv and --tsv print a line for each file; --header names the columns once.
ckpt info --csv --header data/train.pt corpus/torch/t26/amp.pt corpus/gguf/metadata.gguf
ckpt info --tsv data/train.pt
ckpt info --header data/train.pt; echo "$?"
ckpt info --json --csv data/train.pt; echo "$?"
