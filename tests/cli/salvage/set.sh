# salvage reads a set if a shard is missing, is cut off, has no complete header or is a web page, and if the index is
# cut off. It lists each lost tensor with its shard.
mkdir set bin
ckpt convert -q --root state_dict --max-shard-size 8KB data/train.pt set/model.safetensors
ckpt convert -q --root state_dict --max-shard-size 8KB data/train.pt bin/pytorch_model.bin
index=model.safetensors.index.json
one=model-00001-of-00002.safetensors two=model-00002-of-00002.safetensors
try() { echo "# $1"; shift; ckpt salvage "$@"; echo $?; }
restore_set() { rm -rf s; cp -r set s; }
restore_set; try whole s/$index -o a.safetensors; ckpt diff set a.safetensors
restore_set; rm s/$one; try missing s -o b.safetensors; ckpt diff set b.safetensors
restore_set; rm s/$two; try json --json s/$index -no c.safetensors
restore_set; head -c 3000 set/$two >s/$two; try cut s -o d.safetensors; ckpt diff set d.safetensors
restore_set; head -c 90 set/$two >s/$two; try header s -no e.safetensors 2>&1 | tail -n 4
restore_set; echo '<html>' >s/$two; try page s -no f.safetensors 2>&1 | tail -n 4
restore_set; rm s/$one; head -c 90 set/$two >s/$two; try nothing s -o g.safetensors
restore_set; rm s/$one s/$two; try none s -o h.safetensors
restore_set; head -c 500 set/$index >s/$index; try index s -o i.safetensors
two=pytorch_model-00002-of-00002.bin
cp -r bin b; head -c 4900 bin/$two >b/$two; try torch b/pytorch_model.bin.index.json -o j.pt; ckpt diff bin j.pt
# tensors that the index lists, but that their shard lacks
restore_set; sed -i 's/module.fc.bias/module.gone/' s/$index; try gone s -o k.safetensors; ckpt diff set k.safetensors
ls set s bin
