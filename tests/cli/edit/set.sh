# `set` brings a tensor of any file, in place of another or as a new one.
. "$TESTS/edit_input.sh"
. "$TESTS/parts_input.sh"
make_layers
add_tensor only 3,2 uvwxyz
write_tensors one.safetensors
ckpt convert -q one.safetensors one.npy
ckpt edit layers.safetensors -q -o out.safetensors -e 'keep cube, s' -e 'set s = one.npy' \
    -e 'set new.name = "one.safetensors:only"' -e 'transpose new.name'
letters out.safetensors
ckpt edit data/train.pt -q -o out.pt -e 'set state_dict.module.fc.bias = one.safetensors'
ckpt ls out.pt -g '*fc.bias*'
# the other file counts for the plan of an output in parts
ckpt edit layers.safetensors -q --no-sync -o parts.safetensors -e 'set s = one.safetensors' --part 0/2
add_tensor only 3,2 UVWXYZ
write_tensors one.safetensors
ckpt edit layers.safetensors -q --no-sync -o parts.safetensors -e 'set s = one.safetensors' --part 1/2 2>&1 |
    ids
