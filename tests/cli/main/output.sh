# A write error on standard output is an error; a reader that closes the pipe early is not.
ckpt ls data/train.pt >/dev/full; echo $?
ckpt hash --json data/train.pt >/dev/full; echo $?
ckpt convert -q data/train.pt --to safetensors - 2>err >/dev/full; echo $?
head -n 1 err
ckpt ls data/train.pt | head -n 1
(ulimit -f 8; ckpt convert data/train.pt a.pt; echo $?)
ls
