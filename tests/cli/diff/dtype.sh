# With --ignore-dtype a different dtype is no difference: the numbers are compared, within the tolerance.
. "$TESTS/safetensors.sh"
print_safetensors '{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"y":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"z":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}}' \
    '\000\000\200\077\000\000\000\100\064\003\200\077\000\000\200\100' >a.safetensors
ckpt convert -q --cast f16 a.safetensors h.safetensors
ckpt diff a.safetensors h.safetensors; echo $?
ckpt diff --ignore-dtype a.safetensors h.safetensors; echo $?
ckpt diff --ignore-dtype --rtol 1e-3 a.safetensors h.safetensors; echo $?
ckpt diff --ignore-dtype --keys-only a.safetensors h.safetensors; echo $?
