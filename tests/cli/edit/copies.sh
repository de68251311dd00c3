# A checkpoint whose tensors a rule changes is no copy of its file, although its names stay as they are.
. "$TESTS/edit_input.sh"
make_layers
add_tensor cube 2,2,2 abcdefgh
write_tensors other.safetensors
ckpt convert -q --to dcp layers.safetensors dcp
ckpt edit -q dcp --to dcp -o out.dcp -e 'set cube = other.safetensors:cube' -e 'transpose h.0.q'
ckpt convert -q out.dcp out.safetensors && letters out.safetensors | grep 'cube\|h.0.q'
ckpt edit -q layers.safetensors -f -o out.safetensors -e 'rename? zzz => y' -e 'permute cube 2 1 0'
letters out.safetensors | grep cube
# a distributed checkpoint becomes a set of shards
ckpt convert -q --max-shard-size 100 dcp shards/ && ckpt diff dcp shards
# a tensor that a rule drops is no value that a shard cannot hold
ckpt edit data/train.pt -o parts/ --max-shard-size 1KB --root=state_dict --to safetensors -e 'drop *.bias'
# nor is one whose values a rule sets
ckpt convert -q --to dcp data/train.pt train.dcp
ckpt edit -q train.dcp --to dcp -o set.dcp -e 'set epoch = 4' -e 'set scheduler.base_lrs.0 = 7'
ckpt diff train.dcp set.dcp
