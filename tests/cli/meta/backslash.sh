# A backslash in a value is printed as it is; control characters are escaped.
. "$TESTS/safetensors.sh"
print_safetensors '{"__metadata__":{"path":"C:\\models\\new","two":"a\nb"},"a":{"shape":[1],"dtype":"U8","data_offsets":[0,1]}}' x >a.safetensors
ckpt meta a.safetensors
ckpt meta a.safetensors 'path=D:\x' -o b.safetensors
ckpt meta b.safetensors
