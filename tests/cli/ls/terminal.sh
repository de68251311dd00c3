# On a terminal, ls prints a header, totals and a heading per file, wraps long names, and obeys NO_COLOR.
script -qec true /dev/null >/dev/null 2>&1 || { echo 'no pseudo-terminal to be had'; exit 77; }
tty() { TERM=xterm script -qec "stty cols 60; $1" /dev/null | tr -d "\r"; }
tty "ckpt ls corpus/torch/t26/tied.pt corpus/torch/t26/zero_dim.pt" | sed "s/$(printf "\033")/ESC/g"
tty "NO_COLOR=1 ckpt ls -g \"*momentum*\" data/train.pt"
