# A notice reports that the input is one shard of several, unless the output's name is that of a shard, too.
mkdir set
ckpt convert -q --max-shard-size 10kB --root auto data/train.pt set/model.safetensors
one=$(echo set/*-00001-of-0000?.safetensors)
ckpt convert $one x.pt
ckpt strip --auto $one -o y.safetensors
ckpt strip --auto $one -o y-00001-of-00003.safetensors
ckpt strip --auto --in-place $one || ckpt convert -f set z.pt
cp data/train.pt a-00001-of-00001.pt
ckpt convert -q --root auto a-00001-of-00001.pt b.pt
cp data/train.pt a-0001-of-0002.pt
ckpt convert -q --root auto a-0001-of-0002.pt c.pt
