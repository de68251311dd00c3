# diff exits 2 if either file cannot be read, or if the arguments are wrong.
ckpt diff data/train.pt missing.pt; echo $?
ckpt diff missing.pt data/train.pt; echo $?
ckpt diff data/train.pt; echo $?
ckpt diff --rtol=-1 data/train.pt data/train.pt; echo $?
ckpt diff --json missing.pt data/train.pt
