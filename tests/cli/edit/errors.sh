# What no other test here has: errors of rules, each by its message.
. "$TESTS/edit_input.sh"
make_layers
try()
{
    file=$1
    shift
    echo "# $*" >&2
    ckpt edit "$file" -q -n -o no.safetensors "$@"
    [ $? = 2 ] || echo "not refused: $*"
}
while IFS= read -r rule; do
    try layers.safetensors -e "$rule"
done <<'END'
transpose h.0.q -> ""
tie h.*.q new
set s =
set s
unflatten h.0.q dim 0 [3, -1]
slice cube [:0] ; unstack -> x.{i}
slice cube [:0] ; reshape [0, 1099511627776, 1099511627776] ; flatten dims 1 2
split cube dim 0 sizes -1 3 -> a, b
reshape s [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]
concat h.0.q, h.0.k dim 2 -> x
concat h.0.q, e.0.w dim 0 -> x
pad cube dim
pad cube dim 0 dim 1 to 3
param
param x
param x 3
param x =
param x = 1 ; param x = 2
drop {a-b}
drop s -> x
keep
untie s x
flatten cube dims 2 1
flatten cube dims 0
unstack cube dim 3 -> x.{i}
split cube dim 3 -> a, b
pad cube dim 3 to 9
permute cube 0 1 3
join cube dim 0 ; join dim 7
END
try layers.safetensors -e 'reshape s [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] -> x.0' \
    -e 'stack x.{i} -> x'
try layers.safetensors -e 'slice cube [:0] ; reshape [0, 9223372036854775807] -> a' -e 'concat a, a, a dim 1 -> b'
printf 'drop s\0\n' >nul.txt
printf 'drop \377\n' >latin.txt
try layers.safetensors --rules nul.txt
try layers.safetensors --rules latin.txt
# two tensors of one number; casts before
ckpt edit -q layers.safetensors -o two.safetensors -e 'set f.0.w = layers.safetensors:e.0.w' --no-sync
try two.safetensors -e 'stack ?.{e}.w -> x'
ckpt convert -q data/train.pt --root auto --keep '*.fc.*' -o fc.safetensors --no-sync
ckpt convert -q fc.safetensors --cast f16 -o half.safetensors --no-sync
try half.safetensors -e 'cast *.weight f32 ; pad dim 0 to 11 with 0.1'
try fc.safetensors -e 'cast *.weight q8_0 ; transpose'
try fc.safetensors -e 'pad *.weight dim 1 to 9000000 ; pad dim 0 to 20 with mean'
try fc.safetensors -e 'concat module.fc.weight, module.fc.bias dim 0 -> x'
try fc.safetensors -e 'reshape module.fc.bias [1, -1] -> b' -e 'cast b f16' -e 'reshape module.fc.weight [1, -1] ; slice [:, :10] -> w' \
    -e 'concat w, b dim 0 -> x'
# tensors in lists, in objects with several names, and in no mapping
array='cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntVb\ntR(I1\n(I2\ntcnumpy\ndtype\n(Vu1\nI0\nI1\ntR(I3\nV|\nNNNI-1\nI-1\nI0\ntbI00\nc_codecs\nencode\n(Vab\nVlatin1\ntRtb'
printf "(lp0\n${array}p1\nag1\na." >list.pkl
printf "(dp0\nVx\n(dp1\nVt\n${array}p2\nsVn\nI1\nssVy\ng1\nsVl\n(lp3\ng2\nasVs\nc__builtin__\nset\n((lp4\nI7\natRs." >names.pkl
ckpt convert -q fc.safetensors --keep '*.bias' -o one.npy --no-sync
ckpt ls names.pkl --values >&2
try one.npy -e 'slice * [:2] -> x'
try list.pkl -e 'split 0 dim 0 -> a, b'
printf "(lp0\n${array}a." >one.pkl
try one.pkl -e 'split 0 dim 0 -> a, b'
try one.pkl -e 'set a = one.npy'
try names.pkl -e 'slice x.t [:1]'
try names.pkl -e 'set x.new = 1'
try names.pkl -e 'set l. = 1'
try names.pkl -e 'set n. = 1'
try names.pkl -e 'set s.0 = 1'
try names.pkl -e 'set x.t = one.npy'
try names.pkl -e 'set x.new = one.npy'
ls no.safetensors 2>/dev/null
:
