# verify compares the index with the shards, and the shards with the index.
ckpt convert -q --root state_dict data/train.pt s.safetensors
mkdir set
ckpt convert -q --max-shard-size 8KB s.safetensors set/model.safetensors
cd set
ls
ckpt verify model.safetensors.index.json
ckpt verify -q .
mv model-00002-of-00002.safetensors away
ckpt verify .
mv away model-00002-of-00002.safetensors
sed -i 's/"module.fc.bias"/"module.fc.bia"/; s/"total_size": *[0-9]*/"total_size": 7/' model.safetensors.index.json
ckpt verify .
sed -i 's/"module.fc.bia"/"module.fc.bias"/' model.safetensors.index.json
ckpt verify .
head -c 2000 model-00001-of-00002.safetensors >x && mv x model-00001-of-00002.safetensors
ckpt verify . | head -n 3
