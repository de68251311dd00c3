# Writing a set removes the single file that it replaces, which some loaders would prefer, unless that is the input.
ckpt convert -q --root auto data/train.pt old.safetensors
mkdir out
cp old.safetensors out/model.safetensors
ckpt convert --root auto --max-shard-size 10kB data/train.pt out/model.safetensors; echo $?
ls -A out
ckpt add -q x. old.safetensors -o new.safetensors
ckpt convert -n -f --max-shard-size 10kB new.safetensors out; echo $?
cmp old.safetensors out/model.safetensors
ckpt convert -q -f --max-shard-size 10kB new.safetensors out; echo $?
ls -A out
ckpt diff new.safetensors out && rm -r out
# The input is not removed, and a notice names it.
mkdir out
cp old.safetensors out/model.safetensors
ckpt convert -f --max-shard-size 10kB out/model.safetensors out | tail -n 1
cmp old.safetensors out/model.safetensors && ckpt diff old.safetensors out/model.safetensors.index.json
# The commands that the notices propose quote a name with a space.
cp old.safetensors 'a b.safetensors'
ckpt convert --max-shard-size 10kB 'a b.safetensors' 'a b.safetensors' | tail -n 1
ckpt convert --root auto data/train.pt -f 'a b.safetensors'
rm a\ b*
# A file without tensors needs only one shard.
printf '\10\0\0\0\0\0\0\0{}      ' >empty.safetensors
ckpt convert -q --max-shard-size 1kB empty.safetensors many.safetensors && ckpt ls many.safetensors
ckpt convert -q --max-shard-size 1kB --drop '*' old.safetensors many.safetensors -f; echo $?
# With more shards than files that may be open, most shards are opened again for each read.
(ulimit -n 40 && ckpt convert -q --max-shard-size 1 old.safetensors few.safetensors; ckpt ls few.safetensors.index.json | wc -l)
(ulimit -n 20
ckpt ls few.safetensors.index.json | wc -l
ckpt diff few.safetensors.index.json old.safetensors
ckpt diff few.safetensors.index.json few.safetensors.index.json
ckpt verify few.safetensors.index.json
ckpt convert -q few.safetensors.index.json one.safetensors && cmp one.safetensors old.safetensors
ckpt convert -q --to torch-zip --max-shard-size 1 few.safetensors.index.json bin
ckpt diff -j 3 bin old.safetensors && ckpt verify bin
rm -r bin)
# A soft limit on open files is raised.
(ulimit -S -n 16 && ckpt ls few.safetensors.index.json | wc -l)
