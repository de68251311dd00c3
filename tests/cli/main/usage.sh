# ckpt alone prints help and fails. It suggests the right word for a misspelled one. --version prints its version.
ckpt 2>overview; echo $?
sed '/^  [a-z-]*  /d' overview >&2
ckpt --help | head -n 1
ckpt --version
ckpt stirp; echo $?
ckpt -q ls; echo $?
ckpt ls; echo $?
ckpt ls --jsno x; echo $?
ckpt ls --json --bad x; echo $?
cp data/train.pt ./-x.pt; ckpt ls -- -x.pt | wc -l
# Standard input is read only if it is named.
ckpt ls -l <data/train.pt; echo $?
cat data/train.pt | ckpt ls -l; echo $?
ckpt add <data/train.pt; echo $?
