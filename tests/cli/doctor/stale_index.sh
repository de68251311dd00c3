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
# run_advice FOLDER - prints what doctor reports about FOLDER, runs the command that it advises, and compares the output
# with the set, whose index alone records a tie
run_advice()
{
    ckpt doctor "$1" >out; cat out
    rm -f fixed.safetensors
    eval "$(sed -n 's/.*\(ckpt convert\)/\1/p' out)"
    ckpt diff $set fixed.safetensors
}
echo '# the files have other names than in the index'
mkdir mlx
cp $set/*.index.json mlx
for i in 1 2 3; do cp $set/model-0000$i-of-00003.safetensors mlx/weights.$((i - 1)).safetensors; done
run_advice mlx
echo '# the index is cut off, empty, or not an index'
rm mlx/weights*; cp $set/*-of-* mlx; chmod u+w mlx/*
index=mlx/model.safetensors.index.json
head -c 150 $set/*.index.json >$index; run_advice mlx
: >$index; run_advice mlx
echo '<html>' >$index; run_advice mlx
echo '# but not if a shard cannot be read either'
head -c 50 $set/model-00002-of-00003.safetensors >mlx/model-00002-of-00003.safetensors
ckpt doctor mlx
rm mlx/model-00002-of-00003.safetensors
ckpt doctor mlx
