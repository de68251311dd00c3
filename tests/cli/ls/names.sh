# Control characters, bidirectional overrides and backslashes in names are escaped in text, and exact in JSON.
printf '%s' '{"a\u001b[31m\u202eb\\c\"d":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' >header
# safetensors pads its header with spaces to a multiple of 8 bytes
length=$(wc -c <header)
while [ $length -lt 96 ]; do printf ' ' >>header; length=$((length + 1)); done
. "$TESTS/safetensors.sh"
print_safetensors "$(cat header)" x >n.safetensors
ckpt ls n.safetensors
ckpt ls --tsv n.safetensors
ckpt ls --json n.safetensors
