# NaN differs from a NaN of other bytes, unless --equal-nan is given; equal bytes never differ.
. "$TESTS/safetensors.sh"
h='{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
print_safetensors "$h" '\001\000\300\177' >a.safetensors
print_safetensors "$h" '\002\000\300\177' >b.safetensors
ckpt diff a.safetensors a.safetensors
ckpt diff --equal-nan a.safetensors b.safetensors
ckpt diff a.safetensors b.safetensors
