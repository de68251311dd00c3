# A shard is not renamed alone if an index in its folder lists the old names: the set could not be read afterwards.
mkdir set other
ckpt convert -q --max-shard-size 10kB --root auto data/train.pt set/model.safetensors
cp -r set was
one=set/model-00001-of-00002.safetensors
index=set/model.safetensors.index.json
ckpt strip --auto -iq $one; echo $?
ckpt strip --auto -inq set/model-0000*; echo $?
ckpt add ema. -iq $one; echo $?
ckpt rename -s 'module=>m' -iq $one; echo $?
ckpt strip --auto -qf $one -o $one; echo $?
(cd set && ckpt strip --auto -iq ${one#*/}); echo $?
diff -r was set && echo 'all as it was'
# Nothing would change, or the output is no file of the set.
ckpt strip --allow-none no.such. -iq $one; echo $?
ckpt strip --auto -qf $one -o other/model-00001-of-00002.safetensors; echo $?
ckpt strip --auto -qf $one -o set/copy.safetensors; echo $?
rm set/copy.safetensors
# The index lists the new names already, or is not one.
sed 's/module\.//g' $index >new
echo '{"weight_map": 7' >$index
ckpt strip --auto -iq $one; echo $?
cp new $index
ckpt strip --auto -iq set/model-0000*; echo $?
ckpt ls -q set | head -n 1
