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
# Each JSON file with a weight_map in the folder is an index; `./` does not matter; so does NAME.index.json in the folder
# above.
rm -r set && cp -r was set
sed 's/"model-/".\/\/.\/model-/' was/model.safetensors.index.json >$index
ckpt strip --auto -iq $one; echo $?
mv $index set/weights.json
(cd set && ckpt strip --auto -iq ${one#*/}); echo $?
sed 's/"model-/"set\/model-/' was/model.safetensors.index.json >model.safetensors.index.json
rm set/weights.json
ckpt strip --auto -iq $one; echo $?
(cd set && ckpt strip --auto -iq ${one#*/}); echo $?
rm model.safetensors.index.json
# What is no regular file is no index.
mkdir set/d.safetensors.index.json
ln -s nowhere set/e.safetensors.index.json
mkfifo set/f.safetensors.index.json
ckpt strip --auto -inq $one; echo $?
ln -s ../was/model.safetensors.index.json set/g.safetensors.index.json
ckpt strip --auto -inq $one; echo $?
# Names that would vanish count as those that change, also if another file replaces the shard.
ckpt convert -q --root auto --keep "*bias" data/train.pt other.safetensors
two=set/model-00002-of-00002.safetensors
rm -r set && cp -r was set
ckpt convert -qf $two -o $two --drop '*bias'; echo $?
ckpt strip nope. --allow-none -qf --keep '*weight' $two -o $two; echo $?
ckpt convert -qf other.safetensors -o $two; echo $?
ckpt convert -qf $two -o $two; echo $?
ckpt convert -qf was/${two#*/} -o $two; echo $?
diff -r was set && echo 'all as it was'
