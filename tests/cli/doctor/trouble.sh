# doctor exits 2 if a file cannot be read, and if two options contradict each other.
ckpt doctor nowhere.pt
echo $?
ckpt doctor --quick --finite data/train.pt
echo $?
ckpt doctor --json nowhere.pt
echo $?
ckpt doctor nowhere.pt data/train.pt >/dev/null
