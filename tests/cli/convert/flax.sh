# convert writes Flax's .msgpack. A file of flax is refused or becomes the same bytes, unless it has an array in chunks;
# keys can be renamed; the dicts of other formats become maps.
flax=corpus/flax
for f in "$flax"/*.msgpack "$flax"/legacy_ckpt/checkpoint_7; do
    ckpt convert -q --to flax "$f" o.msgpack -f 2>/dev/null || { echo "${f##*/} refused"; continue; }
    cmp -s "$f" o.msgpack || echo "${f##*/} differs"
done
# chunks of an array are joined
ckpt convert $flax/chunked.msgpack whole.msgpack; ckpt diff -q $flax/chunked.msgpack whole.msgpack; echo $?
# a rename keeps values and numpy scalars
ckpt add net. $flax/py_values.msgpack -o n.msgpack; ckpt strip net. n.msgpack -o p.msgpack; cmp p.msgpack $flax/py_values.msgpack
ckpt rename -s kernel=\>weight $flax/train_state.msgpack -o r.msgpack; ckpt show r.msgpack | head -n 3
# --root, --drop and --cast; no edit in place
ckpt convert --root params $flax/params.msgpack - | ckpt ls - | head -n 2
ckpt convert --drop l.0 $flax/lists.msgpack l.msgpack; ckpt ls l.msgpack
ckpt convert --cast bfloat16 --keep float32 $flax/dtypes.msgpack b.msgpack; ckpt ls b.msgpack
ckpt add net. -i n.msgpack; echo $?
# containers of other formats become maps, and a name with dots is one key
ckpt convert data/train.pt t.msgpack; ckpt show t.msgpack | head -n 4; ckpt diff -q --tensors-only data/train.pt t.msgpack; echo $?
ckpt convert data/train.pt t.safetensors; ckpt convert t.safetensors s.msgpack; ckpt show s.msgpack | head -n 3
ckpt convert corpus/numpy/np2/empty.npz e.msgpack; ckpt ls e.msgpack; echo $?
ckpt convert --to flax corpus/numpy/np2/empty.npz e; echo $?
ckpt convert corpus/gguf/quantised.gguf q.msgpack; echo $?
ckpt convert --strict data/train.pt x.msgpack; echo $?
ckpt convert --drop 0 $flax/top_list.msgpack d.msgpack; echo $?
