# A manifest may come from a pipe, because it is read only once.
ckpt verify -q --write-manifest m.txt data/train.pt
ckpt verify --manifest - data/train.pt <m.txt
cat m.txt | ckpt verify --manifest - data/train.pt
mkfifo pipe
cat m.txt >pipe &
ckpt verify --manifest pipe data/train.pt
wait
ckpt verify -q --xxh3 --write-manifest - data/train.pt | ckpt verify --manifest /dev/stdin data/train.pt
ckpt verify --manifest m.txt - <data/train.pt
# from a pipe: a manifest that lacks a tensor, a text that is no manifest, and nothing
sed '$d' m.txt | ckpt verify --manifest - data/train.pt
echo $?
echo hello | ckpt verify --manifest - data/train.pt
echo $?
ckpt verify --manifest - data/train.pt </dev/null
echo $?
# a manifest from a pipe cannot be used for two files
ckpt verify --manifest - data/train.pt data/train.pt <m.txt
echo $?
ckpt verify --manifest pipe data/train.pt data/train.pt
echo $?
ckpt verify --manifest - - <m.txt
echo $?
ckpt verify --manifest m.txt data/train.pt data/train.pt
