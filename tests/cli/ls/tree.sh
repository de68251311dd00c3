# --tree shows names split at dots as a tree; --depth adds up what is below that level.
ckpt ls --tree corpus/torch/t26/state_dict.pt
ckpt ls --tree --depth 2 data/train.pt
ckpt ls --depth 3 -g "state_dict.*" data/train.pt
# --order=size puts the largest sums first; --depth goes with --json, --tsv and --csv, --tree does not.
ckpt ls --depth 2 --order=size -g "state_dict.*" -g "optimizer.*.[01].*" data/train.pt
for options in "--depth 2 --tsv" "--depth 2 --csv --header" "--depth 1 --json" "--tree --json" "--depth 1 --text" "--tree --order=size" "--depth 1 --order file"; do
    ckpt ls $options data/train.pt 2>&1; echo "$?"
done
