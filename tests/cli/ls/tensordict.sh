# TensorDict.consolidate: nested dicts, values, jagged tensors, names that are also those of the format.
d=corpus/tensordict
for f in types jagged stack plain_names; do ckpt hash $d/$f.td | sed '$d' | cksum; done
ckpt ls --values $d/types.td; ckpt ls $d/jagged.td; ckpt ls $d/stack.td; ckpt ls $d/plain_names.td
ckpt info $d/types.td; ckpt verify $d/types.td
ckpt convert -q $d/types.td -o t.pt && ckpt diff $d/types.td t.pt && ckpt show t.pt n
# make DATA JSON - writes bytes, JSON and its length to t.td
make() { n=$(printf %s "$2" | wc -c); { printf "$1"; printf %s "$2"; printf "\\$(printf %03o $((n % 256)))\\$(printf %03o $((n / 256)))\0\0\0\0\0\0"; } >t.td; }
attempt() { echo "# $2"; make "$1" "$2"; ckpt ls t.td; }
rest='"cls_metadata": {}, "non_tensors": {}'
empty="\"cls\": \"T\", $rest, \"leaves\": {}"
tensor() { attempt abcd "{\"cls\": \"T\", $rest, \"leaves\": {\"w\": $1}}"; }
tensor '["torch.uint8", [4], 0, 4, 0]'
tensor '["torch.uint8", [3], 0, 4, 1]'
tensor '["torch.uint8", [5], 0, 4, 0]'
tensor '["torch.uint8", [4], 0, 5, 0]'
tensor '["torch.uint8", [4], 3, 2, 0]'
tensor '["torch.uint8", [4294967296, 4294967296], 0, 4, 0]'
tensor '["torch.uint8", [-1], 0, 4, 0]'
tensor '["torch.uint8", 4, 0, 4, 0]'
tensor '["torch.strange", [4], 0, 4, 0]'
tensor '["torch.uint8", [4]]'
tensor 7
attempt '' "{\"cls\": \"T\", $rest, \"leaves\": {\"w\": [\"torch.uint8\", [0], 0, 0, 0]}, \"w\": {$empty}}"
attempt '' "{$empty, \"w\": {$empty}, \"w\": {$empty}}"
attempt '' '{"cls": "T", "cls_metadata": {}, "leaves": {}, "non_tensors": {"w": 7}}'
attempt '' "{$empty, \"empty\": {$empty}}"
attempt '' '{"cls": "T"'
# Each node has the three mappings.
for key in cls_metadata non_tensors leaves; do attempt '' "{$empty, \"w\": $(echo "{$empty}" | sed "s/$key/x/")}"; done
make '' "{$empty, $(printf "\"a\": {$empty, %.0s" $(seq 60))\"b\": {$empty}$(printf '}%.0s' $(seq 60))}"
ckpt ls --values t.td | cut -c1-60
