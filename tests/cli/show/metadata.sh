# info, ls --values and show print texts of a safetensors header; a notice reports that a torch file cannot hold them.
# not ASCII: parts of JSON, and TSV
. "$TESTS/safetensors.sh"
print_safetensors '{"__metadata__":{"m.head":"m.emb","by":"m\u00e9","format":"pt","a.b":"1\n2"},"m.emb":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}
}' xy >a.safetensors
print_safetensors '{"m.emb":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}  ' xy >b.safetensors
print_safetensors '{"__metadata__":{"m.head":"m.emb"},"m.emb":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' xy >c.safetensors
for f in a b c; do echo "-- $f"; ckpt info $f.safetensors; ckpt ls --values $f.safetensors; done
echo -- JSON
ckpt info --json a.safetensors | grep -o '"values":.*"aliases"'
ckpt info --json b.safetensors | grep -o '"values":.*"aliases"'
ckpt ls --values --json a.safetensors | grep -o '"values":.*'
ckpt ls --values -g '*by' a.safetensors; ckpt ls --values --tsv -g '*by' a.safetensors
ckpt ls --values --root m a.safetensors; ckpt ls --root '' --values c.safetensors
echo -- show
for name in __metadata__ __metadata__.a.b __metadata__.by __metadata__.m.head '__meta*.*[ft]'; do
    ckpt show a.safetensors "$name"; ckpt show --json a.safetensors "$name"
done
ckpt show a.safetensors __metadata__.none; echo $?
ckpt show b.safetensors __metadata__; echo $?
echo "-- a torch file has no place for metadata: --strict refuses to lose them; diff does not compare them"
ckpt convert a.safetensors a.pt; ckpt convert --json -n a.safetensors b.pt
ckpt convert --strict a.safetensors s.pt; echo $?
ckpt strip --strict m. a.safetensors -o s.pt; echo $?
ckpt meta -q a.safetensors --unset a.b -o d.safetensors; ckpt convert --strict d.safetensors s.pt; echo $?
ckpt convert --strict c.safetensors c.pt; echo $?
ckpt diff a.safetensors data/train.pt | tail -n 1
ckpt diff a.safetensors c.safetensors; echo $?; ckpt diff --tensors-only a.safetensors c.safetensors; echo $?
ckpt diff b.safetensors c.safetensors; echo $?
echo -- sets of shards keep metadata in their index
print_safetensors '{"__metadata__":{"by":"me"},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}   ' abcd >e.safetensors
ckpt convert --strict --max-shard-size 2 --to torch-zip e.safetensors set; ckpt info set | grep metadata
ckpt convert set one.bin --to torch-zip
