# For a misspelled name of a value the error suggests the nearest, as for a tensor.
for name in lr step_sise fc.bias epohc nonsense; do ckpt show data/train.pt $name; echo $?; done
