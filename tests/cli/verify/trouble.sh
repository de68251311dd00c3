# verify exits 2 if it cannot read the file or the manifest.
ckpt verify nowhere.pt
echo $?
printf 'GGUF\11\0\0\0' >m.gguf
ckpt verify m.gguf
echo $?
ckpt verify --manifest data/train.pt data/train.pt
echo $?
printf '# ckpt manifest 1: sha256\nhello\n' >bad.txt
ckpt verify --manifest bad.txt data/train.pt
echo $?
ckpt verify -q --write-manifest m.txt data/train.pt
ckpt verify --write-manifest m.txt data/train.pt
echo $?
ckpt verify -q -f --write-manifest m.txt data/train.pt
head -c 9000 data/train.pt >cut.pt
ckpt verify --write-manifest cut.txt cut.pt
ls cut.txt 2>/dev/null
ckpt verify --manifest m.txt --root nothing data/train.pt
ckpt verify --manifest m.txt --write-manifest m.txt data/train.pt
ckpt verify --write-manifest m.txt data/train.pt data/train.pt
ckpt verify --xxh3 data/train.pt
ckpt verify --root auto data/train.pt
ckpt verify --json nowhere.pt
