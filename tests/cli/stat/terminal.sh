# On a terminal, stat prints a header, totals, histograms if the locale has block characters, and NaN in red.
# not ASCII: it sets the locale itself
script -qec true /dev/null >/dev/null 2>&1 || { echo 'no pseudo-terminal to be had'; exit 77; }
tty() { TERM=xterm script -qec "stty cols 120; $1" /dev/null | tr -d "\r" | sed "s/$(printf "\033")/ESC/g"; }
header='{"x":{"dtype":"F16","shape":[6],"data_offsets":[0,12]}}'
. "$TESTS/safetensors.sh"
# NaN, Inf, -Inf, -0, 1, 0
print_safetensors "$header" '\000\176\000\174\000\374\000\200\000\074\000\000' >bad.safetensors
tty "LC_ALL=C.UTF-8 ckpt stat corpus/torch/t215/zero_dim.pt bad.safetensors"
tty "LC_ALL=C.UTF-8 ckpt stat -g '*conv*' data/train.pt"
tty "LC_ALL=C NO_COLOR=1 ckpt stat -g '*conv1*' data/train.pt"
