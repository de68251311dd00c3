# Control characters, bidirectional overrides and bad bytes in names are escaped in text, and exact in JSON.
printf '%b' '\0140\000\000\000\000\000\000\000' >n.safetensors
printf '%s' '{"a\u001b[31m\u202eb\\c\"d":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' >h
n=$(wc -c <h)
while [ $n -lt 96 ]; do printf ' ' >>h; n=$((n + 1)); done
cat h >>n.safetensors; printf x >>n.safetensors
ckpt ls n.safetensors
ckpt ls --tsv n.safetensors
ckpt ls --json n.safetensors
