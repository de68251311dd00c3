# Each kind of difference is reported in text, Markdown and JSON, and the exit code is 1.
. "$TESTS/safetensors.sh"
print_safetensors '{"gone":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"old":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},"shape":{"dtype":"U8","shape":[2],"data_offsets":[12,14]},"type":{"dtype":"I16","shape":[1],"data_offsets":[14,16]},"val":{"dtype":"F32","shape":[2],"data_offsets":[16,24]},"w":{"dtype":"U8","shape":[1],"data_offsets":[24,25]}}' \
    '\000\000\000\000\001\002\003\004\005\006\007\010\001\002\005\000\000\000\200\077\000\000\000\100x' >a.safetensors
print_safetensors '{"extra":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"new":{"dtype":"F32","shape":[2],"data_offsets":[1,9]},"shape":{"dtype":"U8","shape":[1,2],"data_offsets":[9,11]},"type":{"dtype":"I8","shape":[1],"data_offsets":[11,12]},"val":{"dtype":"F32","shape":[2],"data_offsets":[12,20]},"w":{"dtype":"U8","shape":[1],"data_offsets":[20,21]}}' \
    'e\001\002\003\004\005\006\007\010\001\002\005\000\000\200\077\000\000\020\100x' >b.safetensors
ckpt diff a.safetensors b.safetensors
ckpt diff --md a.safetensors b.safetensors
ckpt diff --json a.safetensors b.safetensors
ckpt diff --keys-only a.safetensors b.safetensors
ckpt diff -g 'v*' -g w -g '!w' --rtol 0.2 a.safetensors b.safetensors
ckpt diff -g 'v*' --atol=0.2 --rtol=0.1 --json a.safetensors b.safetensors
ckpt diff -g val a.safetensors b.safetensors
