# Every command lists a tie that the metadata of safetensors record. In a torch file it becomes a shared storage, and in
# safetensors it is recorded again.
. "$TESTS/safetensors.sh"
header() { tail -c +9 "$1" | head -n 1 | grep -o '"__metadata__":{[^}]*}'; }
print_safetensors '{"__metadata__":{"m.head":"m.emb","by":"me","format":"pt"},"m.emb":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}
}' xy >a.safetensors
for cmd in 'ls -l' info 'ls --json' hash 'stat --tsv' 'verify'; do
    ckpt $cmd a.safetensors
done
ckpt show a.safetensors m.head
ckpt convert a.safetensors a.pt
ckpt ls -l a.pt
ckpt hash a.pt
ckpt diff a.safetensors a.pt
ckpt convert a.pt b.safetensors
header b.safetensors
ckpt convert a.safetensors c.safetensors
header c.safetensors
echo -- ties after --drop and --ties
ckpt convert --drop m.emb a.safetensors d.safetensors; ckpt ls d.safetensors; header d.safetensors
ckpt convert --drop m.head a.safetensors e.safetensors; ckpt ls e.safetensors; header e.safetensors
ckpt convert --ties copy a.safetensors f.safetensors; ckpt ls f.safetensors; header f.safetensors
ckpt convert --ties error a.safetensors g.safetensors; echo $?
ckpt convert --ties copy --max-expanded 1 a.safetensors g.safetensors; echo $?
echo -- names
ckpt strip m. a.safetensors -o h.safetensors; header h.safetensors
ckpt rename -s 'head=>emb' a.safetensors -o i.safetensors; echo $?
ckpt rename -s 'm.head=>by' a.safetensors -o i.safetensors; echo $?
ckpt strip m. --in-place a.safetensors; header a.safetensors; ckpt ls a.safetensors
ckpt rename -s 'head=>format' --in-place a.safetensors; echo $?
ckpt verify --write-manifest=a.sum a.pt; ckpt convert -f a.pt a2.safetensors 2>/dev/null
ckpt verify --manifest a.sum a2.safetensors; ckpt verify --manifest a.sum e.safetensors
echo -- sets
mkdir set
print_safetensors '{"__metadata__":{"format":"pt","head":"emb"},"emb":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' xy \
    >set/1.safetensors
print_safetensors '{"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}' xyz >set/2.safetensors
cat >set/model.safetensors.index.json <<'END'
{"metadata":{"total_size":5,"b2":"b","note":"text"},
"weight_map":{"emb":"1.safetensors","b":"2.safetensors","head":"1.safetensors"}}
END
ckpt ls -l set
ckpt verify set
ckpt convert set set.pt; ckpt ls -l set.pt
ckpt convert --max-shard-size 3 set again; cat again/*.json; echo; ckpt ls again
ckpt diff set again
ckpt convert set one.safetensors; header one.safetensors
echo -- a shard that is gone takes its ties with it
rm set/1.safetensors
ckpt salvage set -o saved.safetensors; ckpt ls saved.safetensors; header saved.safetensors
