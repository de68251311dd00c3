# NaN differs from a NaN of other bytes, unless --equal-nan is given; equal bytes never differ.
. "$TESTS/diff/make.inc"
h='{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
st a.safetensors "$h" '\001\000\300\177'
st b.safetensors "$h" '\002\000\300\177'
ckpt diff a.safetensors a.safetensors
ckpt diff --equal-nan a.safetensors b.safetensors
ckpt diff a.safetensors b.safetensors
