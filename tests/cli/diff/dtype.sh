# With --ignore-dtype a different dtype is no difference: the numbers are compared, within the tolerance.
. "$TESTS/safetensors.sh"
print_safetensors '{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"y":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"z":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}}' \
    '\000\000\200\077\000\000\000\100\064\003\200\077\000\000\200\100' >a.safetensors
ckpt convert -q --cast f16 a.safetensors h.safetensors
ckpt diff a.safetensors h.safetensors; echo $?
ckpt diff --ignore-dtype a.safetensors h.safetensors; echo $?
ckpt diff --ignore-dtype --rtol 1e-3 a.safetensors h.safetensors; echo $?
ckpt diff --ignore-dtype --keys-only a.safetensors h.safetensors; echo $?
# equal as doubles, but 2^53+1 is not 2^53
print_safetensors '{"x":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}' '\001\000\000\000\000\000\040\000' >i.safetensors
print_safetensors '{"x":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}' '\000\000\000\000\000\000\100\103' >f.safetensors
ckpt diff --ignore-dtype -l i.safetensors f.safetensors; echo $?
ckpt diff --ignore-dtype -l f.safetensors i.safetensors; echo $?
