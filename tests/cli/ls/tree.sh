# Dots make a tree; --depth sums up.
ckpt ls --tree corpus/torch/t26/state_dict.pt
ckpt ls --tree --depth 2 data/train.pt
ckpt ls --depth 3 -g "state_dict.*" data/train.pt
