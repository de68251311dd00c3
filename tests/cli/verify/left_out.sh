# tensors of a set that are left out: a shard that the index does not name, a part of a GGUF under another name
. "$TESTS/safetensors.sh"
mkdir set
for t in a b c; do
    print_safetensors "{\"$t\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}" 'xy' >$t
done
mv a set/model-00001-of-00002.safetensors; mv b set/model-00002-of-00002.safetensors; mv c set/model-mtp-of-00002.safetensors
echo '{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}' \
    >set/model.safetensors.index.json
ckpt ls set; ckpt verify -q set; echo $?; ckpt doctor set
eval "$(ckpt doctor set | sed -n 's/^.*: \(ckpt convert\)/\1/p')"; ckpt ls fixed.safetensors
ckpt convert set one.safetensors; echo $?
ckpt convert -f --strict set one.safetensors; echo $?
echo '# an old shard whose tensors the index has, and one that is damaged'
mv set/model-mtp-of-00002.safetensors .
cp set/model-00001-of-00002.safetensors set/model-00001-of-00009.safetensors
echo x >set/model-00002-of-00009.safetensors
ckpt verify -q set; echo $?
ckpt convert -qf --strict set one.safetensors; echo $?
for part in 1 2; do
    cp corpus/gguf/split_size-0000$part-of-00003.gguf p$part.gguf
    ckpt verify -q p$part.gguf; echo $?
    ckpt doctor p$part.gguf | sed -n 1p
    ckpt convert --strict p$part.gguf p$part.safetensors; echo $?
done
ckpt verify -q corpus/gguf/split_size-00002-of-00003.gguf; echo $?
