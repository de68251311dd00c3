# an index that names other files than those in its folder: the command that doctor prints reads these
set=corpus/torch/t215/eco/hub_safetensors_sharded
mkdir 'my set'
cp $set/*-of-* 'my set'
sed 's/of-00003/of-00030/' $set/model.safetensors.index.json >'my set/model.safetensors.index.json'
ckpt ls 'my set'; echo $?
ckpt doctor 'my set' >out; cat out
eval "$(sed -n 's/.*\(ckpt convert\)/\1/p' out)"
ckpt ls fixed.safetensors
echo '# but not if a shard is missing'
rm 'my set/model-00002-of-00003.safetensors'
ckpt doctor 'my set'
