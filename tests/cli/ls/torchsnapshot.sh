# torchsnapshot: nested containers, values, tensors in files of their own, in one file, in chunks and in shards.
d=corpus/torchsnapshot
for f in types batched chunked; do ckpt hash $d/$f | sed '$d' | cksum; done
ckpt ls --values $d/types; ckpt ls --values $d/batched | head -n 8; ckpt show $d/types progress.lst; ckpt info $d/chunked; ckpt verify $d/types
ckpt convert -q --root '' $d/types -o t.pt && ckpt diff $d/types t.pt
# make MANIFEST - writes a snapshot of two ranks
make() { rm -rf s && mkdir -p s/0 s/1 && printf 'abcd' >s/0/w && printf 'efgh' >s/1/w; printf '%s' "{\"version\": \"0.1.0\", \"world_size\": 2, \"manifest\": {$1}}" >s/.snapshot_metadata; }
attempt() { echo "# $1"; make "$2"; ckpt ls --values s; }
shard() { printf '{"offsets": [%s], "sizes": [4], "tensor": {"location": "%s", "serializer": "buffer_protocol", "dtype": "torch.uint8", "shape": [4], "byte_range": null}}' "$1" "$2"; }
dict='"0/m": {"type": "dict", "keys": ["w"]}'
sharded() { printf '"%s": {"type": "ShardedTensor", "shards": [%s]}' "$1" "$(shard "$2" "$3")"; }
tensor() { printf '%s, "0/m/w": {"type": "Tensor", "location": "%s", "serializer": "%s", "dtype": "%s", "shape": %s, "byte_range": %s}' "$dict" "$@"; }
attempt 'shards of two ranks' "$dict, $(sharded 0/m/w 0 0/w), $(sharded 1/m/w 4 1/w)"; ckpt hash s
attempt 'a shard is missing' "$dict, $(sharded 0/m/w 0 0/w), $(sharded 1/m/w 5 1/w)"
attempt 'a value of rank 1' "$dict, $(sharded 0/m/w 0 0/w), $(sharded 1/m/w 4 1/w), \"1/seed\": {\"type\": \"int\", \"serialized_value\": \"3\", \"replicated\": false}"
ckpt convert -q --strict s -o strict.safetensors
attempt 'another size' "$(tensor 0/w buffer_protocol torch.uint8 '[3]' null)"
attempt 'too few bytes' "$(tensor 0/w buffer_protocol torch.float32 '[2]' null)"; ckpt verify s; ckpt salvage -q s -o out.pt
attempt 'a range' "$(tensor 0/w buffer_protocol torch.uint8 '[2]' '[1, 3]')"; ckpt show s m.w
attempt 'a range beyond the file' "$(tensor 0/w buffer_protocol torch.uint8 '[2]' '[3, 5]')"
attempt 'no range' "$(tensor 0/w buffer_protocol torch.uint8 '[4]' '[4]')"
attempt 'another serializer' "$(tensor 0/w per_tensor_qtensor torch.qint8 '[4]' null)"
attempt 'no dtype' "$(tensor 0/w buffer_protocol torch.strange '[4]' null)"
attempt 'a file outside' "$(tensor ../w buffer_protocol torch.uint8 '[4]' null)"
attempt 'a missing file' "$(tensor 0/x buffer_protocol torch.uint8 '[4]' null)"
attempt 'no object' "$(tensor 0/w torch_save torch.uint8 '[4]' null)"
attempt 'a negative size' "$(tensor 0/w buffer_protocol torch.uint8 '[-4]' null)"
attempt 'an entry that is missing' "$dict"
attempt 'a key twice' '"0/m": {"type": "dict", "keys": ["w", "w"]}, "0/m/w": {"type": "int", "serialized_value": "3"}'
attempt 'an entry in no container' '"0/m": {"type": "dict", "keys": []}, "0/m/w": {"type": "int", "serialized_value": "3"}'
attempt 'a type' '"0/m": {"type": "DTensor"}'
attempt 'an int' '"0/m": {"type": "int", "serialized_value": "x"}'
attempt 'base64' '"0/m": {"type": "float", "serialized_value": "*"}'
attempt 'a short float' '"0/m": {"type": "float", "serialized_value": "AAAA"}'
attempt 'no rank' '"m": {"type": "int", "serialized_value": "3"}'
attempt 'nothing' ''
printf 'manifest: {}\n' >s/.snapshot_metadata; ckpt ls s
