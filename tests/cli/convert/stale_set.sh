# With --max-shard-size, writing a single file in the place of a set removes all of the set, but no other file.
for to in model.safetensors pytorch_model.bin; do
    mkdir out
    ckpt convert -q --root auto --max-shard-size 10kB data/train.pt --to "$([ $to = model.safetensors ] &&
        echo safetensors || echo torch-zip)" out
    touch "out/${to%.*}-00001-of-00099.${to##*.}"
    ls out
    ckpt add -q x. out -o new.safetensors
    ckpt convert --max-shard-size 5GB new.safetensors out/$to; echo $?
    ckpt convert -f --max-shard-size 5GB new.safetensors out/$to; echo $?
    ls -A out
    ckpt diff new.safetensors out && rm -r out new.safetensors
done
# The name of the new file may be that of a shard of the set.
mkdir out
ckpt convert -q --root auto data/train.pt out/model.safetensors
printf '{"weight_map": {' >out/model.safetensors.index.json
ckpt ls out/model.safetensors | sed -n 's/ .*//p' | sed 's/.*/"&": "model.safetensors"/' | paste -sd, \
    >>out/model.safetensors.index.json
echo '}}' >>out/model.safetensors.index.json
ckpt convert -q --root auto data/train.pt new.pt
ckpt convert -f -q --max-shard-size 5GB --cast bf16 new.pt out/model.safetensors; echo $?
ls -A out
# A dry run removes nothing.
ckpt convert -q --max-shard-size 10kB data/train.pt q.safetensors
ckpt convert -f -q -n --max-shard-size 5GB data/train.pt q.safetensors
ls q*
# Without --max-shard-size only the named file is written: the set stays, and a notice reports it.
ckpt convert --root auto data/train.pt q.safetensors; echo $?
ckpt convert -f --root auto data/train.pt q.safetensors; echo $?
ckpt convert -f -q q.safetensors.index.json q.safetensors; echo $?
ckpt verify q.safetensors q.safetensors.index.json
