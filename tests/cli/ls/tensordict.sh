# TensorDict.consolidate: nested dicts, values, jagged tensors, names that are also those of the format.
d=corpus/tensordict
for f in types jagged stack plain_names; do ckpt hash $d/$f.td | sed '$d' | cksum; done
ckpt ls --values $d/types.td; ckpt ls $d/jagged.td; ckpt ls $d/stack.td; ckpt ls $d/plain_names.td
ckpt info $d/types.td; ckpt verify $d/types.td
ckpt convert -q $d/types.td -o t.pt && ckpt diff $d/types.td t.pt && ckpt show t.pt n
# make DATA JSON - writes bytes, JSON and its length to t.td
make() { n=$(printf %s "$2" | wc -c); { printf "$1"; printf %s "$2"; printf "\\$(printf %03o $((n % 256)))\\$(printf %03o $((n / 256)))\0\0\0\0\0\0"; } >t.td; }
attempt() { echo "# $2"; make "$1" "$2"; ckpt ls t.td; }
tensor() { attempt abcd "{\"cls\": \"T\", \"leaves\": {\"w\": $1}}"; }
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
attempt '' '{"cls": "T", "leaves": {"w": ["torch.uint8", [0], 0, 0, 0]}, "w": {"cls": "T"}}'
attempt '' '{"cls": "T", "w": {"cls": "T"}, "w": {"cls": "T"}}'
attempt '' '{"cls": "T", "non_tensors": {"w": 7}}'
attempt '' '{"cls": "T", "empty": {"cls": "T"}}'
attempt '' '{"cls": "T"'
make '' "{\"cls\": \"T\", $(printf '"a": {%.0s' $(seq 120))$(printf '}%.0s' $(seq 120))}"
ckpt ls --values t.td | cut -c1-60
