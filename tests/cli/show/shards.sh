# show reads the index of a set and the shard that holds the tensor; what it reports is as if it had read all.
. "$TESTS/safetensors.sh"
print_safetensors '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' xy >1.safetensors
print_safetensors '{"b":["U8",[3],[0,3]],"b[0]":["U8",[1],[3,4]]}' xyzw >2.safetensors
cat >model.safetensors.index.json <<'END'
{"metadata":{"total_size":6},"weight_map":{"a":"1.safetensors","b":"2.safetensors","b[0]":"2.safetensors"}}
END
ckpt show . a
ckpt show . 'a[1]'
ckpt show model.safetensors.index.json 'b[0]'
ckpt show . 'b[1]'
ckpt show --json . b
ckpt show . c; echo $?
ckpt show -i . B
ckpt show . '[a]*'

# a damaged shard is an error only for its own tensors, and for names that may be in it
head -c 20 1.safetensors >cut; mv cut 1.safetensors
ckpt show . 'b[2]'; echo $?
ckpt show . a; echo $?
ckpt show . c; echo $?

# the index lists a tensor that is not in its shard
sed 's/"b":/"b2":"2.safetensors","b":/' model.safetensors.index.json >stale; mv stale model.safetensors.index.json
ckpt show . b2; echo $?
ckpt show . b; echo $?

# nor does a shard that is missing matter for the tensors of others
rm 1.safetensors
sed 's/"b2":"2.safetensors",//' model.safetensors.index.json >right; mv right model.safetensors.index.json
ckpt show . b; echo $?
ckpt show model.safetensors.index.json 'b[2]'; echo $?
ckpt show . a; echo $?
ckpt show . c; echo $?
