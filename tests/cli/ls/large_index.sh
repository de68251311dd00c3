# An index of 70 MB is read, and one beyond the limit is refused as what it is.
cp corpus/torch/t215/eco/hub_safetensors_sharded/*.safetensors .
index=corpus/torch/t215/eco/hub_safetensors_sharded/model.safetensors.index.json
{ cat $index; head -c 70000000 /dev/zero | tr '\0' ' '; } >model.safetensors.index.json
ckpt ls . | head -n 2
cp $index model.safetensors.index.json
truncate -s 300M model.safetensors.index.json
ckpt ls .; echo $?

# a set that is its own shard, compressed
printf '{"weight_map":{"a":"own.json.gz"}}' | gzip >own.json.gz
ckpt ls own.json.gz; echo $?
ckpt verify own.json.gz; echo $?
ckpt salvage own.json.gz -o out.safetensors; echo $?

# a set that is its own shard, and called so that it would be suggested to read it without its index
printf '{"weight_map":{"a":"../x"}}' >own-00001-of-00001.safetensors
ckpt ls own-00001-of-00001.safetensors; echo $?
