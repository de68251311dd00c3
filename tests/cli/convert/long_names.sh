# names of tensors and folders that are longer than what fits in a message, and names with a NUL
. "$TESTS/safetensors.sh"
n=$(printf '%0210d' 0)
two='"dtype":"U8","shape":[2],"data_offsets"'
print_safetensors "{\"${n}a\":{$two:[0,2]},\"${n}b\":{$two:[2,4]}}" 'abcd' >long.safetensors
ckpt convert long.safetensors long.npz
ckpt diff long.safetensors long.npz

echo '# the members are those that the names say'
ckpt ls -l --tsv long.npz | cut -f 1 | sed "s/$n/(210 zeros)/"

echo '# Python ends the name of a member at a NUL'
print_safetensors "{\"n\\u0000a\":{$two:[0,2]},\"n\\u0000b\":{$two:[2,4]}}" 'abcd' >nul.safetensors
ckpt convert nul.safetensors nul.npz; echo $?; [ ! -e nul.npz ] || echo written

echo '# a set in a folder with a long path is replaced, and what a killed run left there is removed'
mkdir -p "$n/$n"
ckpt convert long.safetensors --max-shard-size 2 "$n/$n" | sed "s/$n/(210 zeros)/g"
cp "$n/$n/model-00001-of-00002.safetensors" "$n/$n/.model-00001-of-00002.safetensors.ckpt-old"
cp "$n/$n/model.safetensors.index.json" "$n/$n/.model.safetensors.index.json.ckpt-old"
ckpt convert long.safetensors -f --max-shard-size 2 "$n/$n" | sed "s/$n/(210 zeros)/g"
ls -A "$n/$n" "$n"  | sed "s/$n/(210 zeros)/g"

echo '# the parts of a GGUF with a long name are found'
print_safetensors '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}' 'abcdefgh' >two.safetensors
ckpt convert two.safetensors --to gguf --architecture llama --max-shard-size 4 "$n.gguf" >/dev/null
ckpt ls "$n-00001-of-00002.gguf"
