# NaN differs from a NaN of other bytes, unless --equal-nan is given; equal bytes never differ.
. "$TESTS/safetensors.sh"
h='{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
print_safetensors "$h" '\001\000\300\177' >a.safetensors
print_safetensors "$h" '\002\000\300\177' >b.safetensors
ckpt diff a.safetensors a.safetensors
ckpt diff --equal-nan a.safetensors b.safetensors
ckpt diff a.safetensors b.safetensors
# A difference from NaN is NaN, one from infinity is infinite.
h='{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
print_safetensors "$h" '\000\000\200\077\000\000\200\077' >one.safetensors
print_safetensors "$h" '\000\000\300\177\000\000\200\077' >nan.safetensors
print_safetensors "$h" '\000\000\200\177\000\000\200\077' >inf.safetensors
print_safetensors "$h" '\000\000\200\177\000\000\300\177' >both.safetensors
for f in nan inf both; do
    ckpt diff -l one.safetensors $f.safetensors
done
ckpt diff --json one.safetensors nan.safetensors
