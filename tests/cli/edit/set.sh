# `set` brings a tensor of any file, in place of another or as a new one.
. "$TESTS/edit_input.sh"
. "$TESTS/parts_input.sh"
make_layers
add_tensor only 3,2 uvwxyz
write_tensors one.safetensors
ckpt convert -q one.safetensors one.npy
ckpt edit layers.safetensors -q -o out.safetensors -e 'keep cube, s' -e 'set s = one.npy' \
    -e 'set new.name = "one.safetensors":only' -e 'transpose new.name'
letters out.safetensors
ckpt edit data/train.pt -q -o out.pt -e 'set state_dict.module.fc.bias = one.safetensors'
ckpt ls out.pt -g '*fc.bias*'
# the other file counts for the plan of an output in parts
ckpt edit layers.safetensors -q --no-sync -o parts.safetensors -e 'set s = one.safetensors' --part 0/2
add_tensor only 3,2 UVWXYZ
write_tensors one.safetensors
ckpt edit layers.safetensors -q --no-sync -o parts.safetensors -e 'set s = one.safetensors' --part 1/2 2>&1 |
    ids
# names with colons and blanks
write_tensors_of() { add_tensor "$1" 1 "$2" && write_tensors "$3"; }
mkdir 'a dir'
write_tensors_of kernel:0 a plain.safetensors
write_tensors_of 'x, y' b 'a dir/f:1.safetensors'
write_tensors_of one c odd:name
ckpt edit layers.safetensors -q -f --no-sync -o out.safetensors -e 'keep s' -e 'set 1 = plain.safetensors:kernel:0' \
    -e 'set 2 = "a dir/f:1.safetensors":"x, y"' -e "set 3 = 'a dir/f:1.safetensors':" -e 'set 4 = odd:name' \
    -e 'set 5 = odd:name:one' -e 'set 6 = odd:name:"one"' -e 'set 7 = plain.safetensors:"kernel:0"'
letters out.safetensors
for rule in 'set s = plain.safetensors:' 'set s = :x' 'set s = none:at:all' 'set s = "a dir/f:1.safetensors":z' 'set s = plain.safetensors: "x"'; do
    ckpt edit layers.safetensors -n -e "$rule"
done
