# For equal files diff prints a count and exits 0; with -q it prints nothing.
ckpt diff data/train.pt data/train.pt
ckpt diff -q data/train.pt data/train.pt
ckpt diff --json data/train.pt data/train.pt
