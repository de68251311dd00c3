# If there is nothing to strip, the output is a copy, byte for byte, whatever the order of rows and the white space.
row() { printf '"%s":{"dtype":"U8","shape":[4],"data_offsets":[%s]}' "$1" "$2"; }
header="{ $(row z 0,4), $(row __metadata 8,12), \"__metadata__\":{\"k\":\"v\"}, $(row a 4,8)}    "
. "$TESTS/safetensors.sh"
print_safetensors "$header" ZZZZAAAAMMMM >f.safetensors
ckpt strip --allow-none no.such. f.safetensors -o g.safetensors; echo $?
cmp f.safetensors g.safetensors
ckpt strip --auto f.safetensors -o - 2>/dev/null | cmp f.safetensors -
ckpt rename --allow-none -s 'x=>y' f.safetensors -qfo g.safetensors
cmp f.safetensors g.safetensors
# If a name changes, or the file is converted, the order is that of the official library.
ckpt rename -s 'z=>b' f.safetensors -qfo g.safetensors
tail -c 12 g.safetensors; echo
ckpt convert f.safetensors -qfo g.safetensors
tail -c 12 g.safetensors; echo
