# Alone it helps and fails; slips are guessed; the version.
ckpt; echo $?
ckpt --help | head -n 1
ckpt --version
ckpt stirp; echo $?
ckpt -q ls; echo $?
ckpt ls; echo $?
ckpt ls --jsno x; echo $?
ckpt ls --json --bad x; echo $?
cp data/train.pt ./-x.pt; ckpt ls -- -x.pt | wc -l
