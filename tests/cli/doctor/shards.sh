# doctor reports the missing shard of a set; once the shard is back, the set is healthy.
ckpt convert -q --root state_dict data/train.pt w.pt
ckpt strip -q --auto w.pt -o h.pt
mkdir set
ckpt convert -q --max-shard-size 8KB h.pt set/model.safetensors
mv set/model-00002-of-00002.safetensors .
ckpt doctor set
mv model-00002-of-00002.safetensors set
ckpt doctor set
sed -i 's/"total_size": *[0-9]*/"total_size": 7/' set/model.safetensors.index.json
ckpt doctor set
