# Equal files: a count, exit 0; -q prints nothing.
ckpt diff data/train.pt data/train.pt
ckpt diff -q data/train.pt data/train.pt
ckpt diff --json data/train.pt data/train.pt
