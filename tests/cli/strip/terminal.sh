# A checkpoint is written to a terminal only with -f.
script -qec true /dev/null >/dev/null 2>&1 || { echo 'no pseudo-terminal to be had'; exit 77; }
script -qec 'NO_COLOR=1 ckpt strip --auto data/train.pt -o -' /dev/null | tr -d '\r'
script -qec 'ckpt strip -fq --auto data/train.pt -o -' /dev/null | head -c 2; echo
script -qec 'ckpt strip -q --auto data/train.pt -o - | ckpt ls - | wc -l' /dev/null | tr -d '\r'
