# Unreadable is 2, whichever side; usage is 2.
ckpt diff data/train.pt missing.pt; echo $?
ckpt diff missing.pt data/train.pt; echo $?
ckpt diff data/train.pt; echo $?
ckpt diff --rtol=-1 data/train.pt data/train.pt; echo $?
ckpt diff --json missing.pt data/train.pt
