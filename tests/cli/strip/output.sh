# strip replaces an existing output only with -f, asks for -o if it is missing, and writes to standard output for -.
echo mine >a.pt
ckpt strip --auto data/train.pt -o a.pt; echo $?
cat a.pt
ckpt strip -f --auto data/train.pt -o a.pt; echo $?
ckpt strip --auto data/train.pt; echo $?
ckpt strip --auto -o - data/train.pt | ckpt ls -g "*fc*" -
ckpt strip -qf --auto a.pt -o a.pt && ckpt ls a.pt | wc -l
