# convert writes GGUF. A file of gguf-py becomes the same bytes; tensors can be renamed, divided into shards,
# or come from other formats.
gguf=corpus/gguf
for f in quantised metadata align64 align4096 rank1_4 rand_all no_tensors odd_zero; do
    ckpt convert -q $gguf/$f.gguf o.gguf -f 2>/dev/null; cmp $gguf/$f.gguf o.gguf && echo same
done
ckpt add net. $gguf/align64.gguf -o n.gguf; ckpt ls n.gguf; ckpt strip net. -i n.gguf; ckpt diff n.gguf $gguf/align64.gguf
ckpt add a.name.that.does.not.fit.into.the.header.. -i n.gguf; echo $?
ckpt convert $gguf/bigendian.gguf b.gguf; ckpt diff -q $gguf/bigendian.gguf b.gguf; echo $?
ckpt convert $gguf/edge/v2.gguf o.gguf -f; ckpt diff -q $gguf/edge/v2.gguf o.gguf; echo $?
ckpt convert $gguf/rand_Q8_1.gguf q.gguf; echo $?
ckpt convert --cast f16 $gguf/quantised.gguf h.gguf --keep '*.BF16'; ckpt ls h.gguf
# shards
mkdir s; ckpt convert --max-shard-size=2KB $gguf/quantised.gguf s; ckpt meta s/model-00002-of-*.gguf
ckpt diff -q s/model-00001-of-*.gguf $gguf/quantised.gguf; echo $?
ckpt convert s/model-00001-of-*.gguf one.gguf; ckpt meta one.gguf
ckpt convert -f --max-shard-size=2KB $gguf/quantised.gguf s; echo $?
ckpt add x. -i s/model-00001-of-*.gguf; echo $?
ckpt add x. s/model-00002-of-*.gguf -o p2.gguf; ckpt meta p2.gguf
# tensors of other formats
ckpt convert data/train.pt t.gguf; echo $?
ckpt convert --architecture=net data/train.pt t.gguf; ckpt meta t.gguf; ckpt diff -q --root auto data/train.pt t.gguf; echo $?
ckpt convert --json --architecture=net --max-shard-size=10KB data/train.pt t/m.gguf | cut -c1-160; ckpt meta t/m-00001-of-*.gguf
ckpt convert $gguf/metadata.gguf m.safetensors; ckpt convert m.safetensors m.gguf; ckpt meta m.gguf | head -n 3
ckpt convert corpus/flax/lowbit.msgpack l.gguf --architecture=net; echo $?
ckpt add "$(printf '%064d.' 0)" m.safetensors -o l.gguf; echo $?
ckpt convert data/train.pt - --to gguf --architecture=net | ckpt ls - | head -n 2
