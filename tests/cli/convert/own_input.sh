# An output never replaces a file of the set that is being read; a single input file may be replaced.
ckpt convert -q --max-shard-size 10kB data/train.pt m.safetensors
set -- m-00001-of-0000?.safetensors
before=$(sha256sum m*)
mkdir other
ln -s ../"$1" other/linked.safetensors
for out in "$1" m.safetensors.index.json other/linked.safetensors; do
    ckpt convert -f --to safetensors m.safetensors.index.json "$out"; echo $?
done
ckpt convert m.safetensors.index.json "$1"; echo $?
ckpt convert -f --dry-run m.safetensors.index.json "$1"; echo $?
ckpt strip -f --auto m.safetensors.index.json -o "$1"; echo $?
ckpt add -f x. m.safetensors.index.json -o "$1"; echo $?
ckpt rename -f -s 'conv=>c' m.safetensors.index.json -o "$1"; echo $?
ckpt sanitize -f m.safetensors.index.json -o "$1"; echo $?
ckpt salvage -f m.safetensors.index.json -o "$1"; echo $?
ckpt convert -f --max-shard-size 5GB m.safetensors.index.json "$1"; echo $?
ckpt convert -f --max-shard-size 5GB m.safetensors.index.json m.safetensors; echo $?
[ "$before" = "$(sha256sum m*)" ] && echo 'as it was'
# With OUT a folder, the output is called model.safetensors. Here this is the set's only shard, so that it is refused.
mkdir one
ckpt convert -q --root auto data/train.pt one/model.safetensors
printf '{"weight_map": {' >one/model.safetensors.index.json
ckpt ls one/model.safetensors | sed -n 's/ .*//p' | sed 's/.*/"&": "model.safetensors"/' | paste -sd, \
    >>one/model.safetensors.index.json
echo '}}' >>one/model.safetensors.index.json
ckpt add -f x. one/model.safetensors.index.json -o one; echo $?
ckpt verify -q one/model.safetensors.index.json; echo $?
# An output next to the set, or in place of a single input file, is written.
ckpt convert m.safetensors.index.json m.safetensors; echo $?
ckpt add -q -f x. m.safetensors -o m.safetensors; echo $?
ckpt convert -f -q --max-shard-size 5GB data/train.pt a.safetensors
ckpt convert -f -q --max-shard-size 5GB a.safetensors a.safetensors; echo $?
