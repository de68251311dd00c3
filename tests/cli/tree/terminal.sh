# On a terminal, a tree with a header is drawn that takes about a screen, without the columns that do not fit.
script -qec true /dev/null >/dev/null 2>&1 || { echo 'no pseudo-terminal to be had'; exit 77; }
tty() { TERM=xterm NO_COLOR=1 script -qec "stty cols $1; $2" /dev/null | tr -d "\r"; }
tty 40 "ckpt tree corpus/megatron/tp1"
tty 69 "ckpt tree --depth 2 data/train.pt corpus/torch/t26/tied.pt"
tty 80 "ckpt tree corpus/torch/t215/transformer_state_dict.pt"
tty 80 "ckpt tree -q corpus/torch/t215/transformer_state_dict.pt" | tail -n 1
tty 80 "ckpt tree --depth 0 corpus/torch/t215/transformer_state_dict.pt" | tail -n 2
