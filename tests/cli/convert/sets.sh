# sets of shards: without an index, rebuilt, with a name of an index as output, and several inputs merged into one
. "$TESTS/safetensors.sh"
set=corpus/torch/t215/eco/hub_safetensors_sharded
quiet() { "$@" >/dev/null 2>&1; echo "exit $?"; }

echo '# shards without an index are one checkpoint for every command'
mkdir bare && cp $set/*-of-* bare
ckpt ls bare; ckpt diff bare $set; ckpt hash -q bare | tail -1 | cut -c1-16; ckpt verify bare
ckpt stat bare | head -2
echo '# one is missing'
mkdir part && cp $set/*-0000[13]-of-* part
ckpt ls part; echo $?; ckpt verify -q part; ckpt salvage -q part -o saved.safetensors; ckpt ls saved.safetensors
echo '# numbered from 0, and MLX: names that differ only in numbers'
mkdir zero mlx epochs
for k in 1 2 3; do
    cp $set/*-0000$k-of-* zero/m-0000$((k - 1))-of-00003.safetensors
    cp $set/*-0000$k-of-* mlx/weights.0$k.safetensors
    cp $set/*-00001-of-* epochs/epoch_$k.safetensors
done
touch mlx/config.json
ckpt diff zero bare; ckpt diff mlx bare
echo '# but not if a tensor is in two of them, or if there are others'
ckpt ls epochs; echo $?
cp mlx/weights.01.safetensors mlx/other.safetensors
ckpt ls mlx; echo $?

echo '# a set keeps its shards, and gets an index'
ckpt convert bare -o again
cmp again/model-00002-of-00003.safetensors $set/model-00002-of-00003.safetensors
ckpt add -q x. $set -o added; ls added; ckpt ls added | head -1
ckpt strip -q x. added -o stripped; ckpt diff $set stripped
ckpt convert -q --cast bf16 --drop 'fc1.b*' $set -o half/; ls half; ckpt ls half
ckpt convert $set again; echo $?
ckpt convert -qf $set again; echo $?

echo '# an index as output means a set in its folder'
mkdir given
ckpt convert data/train.pt given/model.safetensors.index.json --max-shard-size 10kB
ckpt convert data/train.pt given/m.bin.index.json
ckpt convert $set given/s.safetensors.index.json

echo '# several inputs are merged'
ckpt convert $set/*-0000[12]-of-* -o merged.safetensors
ckpt diff merged.safetensors $set
ckpt convert bare added -o both.safetensors; ckpt ls both.safetensors | wc -l
print_safetensors '{"__metadata__":{"a":"1","b":"2"},"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' x >x.safetensors
print_safetensors '{"__metadata__":{"a":"1","b":"3"},"y":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' y >y.safetensors
ckpt convert x.safetensors y.safetensors -o xy.npz; ckpt ls xy.npz
ckpt convert x.safetensors y.safetensors x.safetensors -o no.npz; echo $?
ckpt convert x.safetensors y.safetensors z.npz; echo $?
ckpt convert x.safetensors y.safetensors -f -o y.safetensors; echo $?

echo '# a folder gets an output for each'
mkdir each
ckpt convert --to npz x.safetensors y.safetensors -o each; ckpt ls each/y.npz
mkdir other && cp x.safetensors other
ckpt convert --to npz x.safetensors other/x.safetensors -f -o each; echo $?
ckpt add -q p. x.safetensors y.safetensors -o each/; ckpt ls each/x.safetensors each/y.safetensors
ckpt strip -q p. each/x.safetensors each/y.safetensors -i; ckpt ls each/x.safetensors each/y.safetensors
ckpt add p. x.safetensors y.safetensors -o one.safetensors; echo $?

echo '# a name without a suffix is no format'
ckpt convert x.safetensors npz; echo $?
ckpt convert x.safetensors dcp; echo $?
cp -R corpus/torch/dist26/dcp_single dcp
ckpt convert -q dcp copy; ls -A copy | head -2
