# A value that is not a tensor is guessed as one is.
for name in lr step_sise fc.bias epohc nonsense; do ckpt show data/train.pt $name; echo $?; done
