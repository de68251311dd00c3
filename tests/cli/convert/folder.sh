# If OUT is a folder, the output is written into it, with the input's name and the suffix of the output's format. Shards
# are written there, too.
mkdir out
ckpt convert data/train.pt out; echo $?
ckpt convert data/train.pt out/; echo $?
ckpt convert --to safetensors data/train.pt out/; echo $?
cp data/train.pt MODEL.PT; cp data/train.pt m.pth.tar; cp data/train.pt plain
for f in MODEL.PT m.pth.tar plain; do
    ckpt convert $f out
    ckpt convert --to safetensors $f out
done
ckpt convert out/plain.safetensors -o out --to torch-zip -f
ckpt convert --max-shard-size 10kB data/train.pt out
ckpt convert -q --max-shard-size 10kB data/train.pt set
ckpt convert set out -f
ckpt convert set/pytorch_model.bin.index.json out --to torch-zip
cat data/train.pt | ckpt convert - out
ckpt convert data/train.pt missing/; echo $?
ckpt convert -n data/train.pt 'not here/deeper/x.pt'; echo $?
ckpt convert -n data/train.pt out/train.pt; echo $?
ckpt convert -q --max-shard-size 10kB data/train.pt missing/deeper; echo $?
ckpt convert -q --to safetensors data/train.pt data/train.pt/x; echo $?
ckpt convert data/train.pt data/; echo $?
ckpt convert MODEL.PT plain -o 'not here/' --to safetensors; echo $?
ckpt strip --auto -f data/train.pt -o missing/train.pt; echo $?
ls out
# suffixes in capitals, .pth.tar; .tar alone is of no format
ckpt convert -q data/train.pt a.SafeTensors && ckpt info a.SafeTensors | head -n 1
ckpt convert -q a.SafeTensors b.PTH && ckpt convert -q a.SafeTensors c.pth.tar && ckpt info b.PTH c.pth.tar | grep zip
ckpt convert -q data/train.pt d.tar; echo $?
