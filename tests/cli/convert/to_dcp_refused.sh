# A folder is only replaced with -f, and then completely; one with a file of another kind in it is left alone.
ckpt convert data/train.pt --to=dcp out --keep '*.fc.*' --quiet
ckpt convert data/train.pt --to=dcp out
ckpt ls out
ckpt convert -f data/train.pt --to=dcp out --keep '*.conv1.*' --quiet
ckpt ls out
touch out/config.json
ckpt convert -f data/train.pt --to=dcp out
rm out/config.json
# -f may also replace the input.
ckpt convert -f out --to=dcp out --drop '*.momentum_buffer' --quiet
ckpt ls out
ls -A
# An existing file and standard output are refused, because they are no folders, and so is a path in a missing folder.
touch file
ckpt convert -f data/train.pt --to=dcp file
ckpt convert data/train.pt --to=dcp -
ckpt convert data/train.pt --to=dcp missing/out
# An empty folder is used without -f; a symbolic link to a folder is kept.
mkdir empty
ckpt convert data/train.pt --to=dcp empty --keep '*.fc.*'
ln -s empty link
ckpt convert -f data/train.pt --to=dcp link --keep '*.conv1.*'
test -L link && ckpt ls empty
# Options for other formats are refused, as is an output without tensors and a root that is a tensor.
ckpt convert data/train.pt --to=dcp x --max-shard-size 1MB
ckpt convert data/train.pt --shards 2 x.pt
ckpt convert data/train.pt --to=dcp x --keep nothing
ckpt convert data/train.pt --root state_dict.module.fc.weight --to=dcp x
