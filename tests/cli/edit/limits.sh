# What would be silently wrong, endless or too deep is refused.
. "$TESTS/edit_input.sh"
make_layers
try() { ckpt edit layers.safetensors -q -f --no-sync -o out.safetensors "$@" || echo "exit $?"; }
try -e 'concat h.{i}.q, h.0.q dim 0 -> h.{i}.x'
try -e 'cast s f32' -e 'cast ? f64'
try -e 'tie e.*.w cube'
try -e 'set {i}.x = layers.safetensors:s'
try -e 'drop s ; reshape [1]'
try -e 'stack e.{e}.w -> x' -e 'transpose x ; transpose ; transpose -> y' && ckpt ls out.safetensors -g y
try -e 'slice? nothing [0] ; reshape [1]'
try -e 'stack {a}.{b}.{c} -> {a}'
try -e 'pad cube dim 0 to 3 with 1e999'
try -e 'pad cube dim 0 to $n' -D n=99999999999999999999
try -e 'drop? /(.)?(.)?(.)?(.)?(.)?(.)?(.)?(.)?(.)?(.)?/'
try -e 'drop [a-z]'
yes 'pad cube dim 0 to 2' | head -n 70 >deep.txt
try --rules deep.txt
yes 'pad cube dim 0 to 2' | head -n 40 >half.txt
try --rules half.txt --rules half.txt
# views of views are one view, however many there are
yes 'transpose cube dims 0 1' | head -n 1000 >views.txt
try --rules views.txt && ckpt diff layers.safetensors out.safetensors
ckpt convert -q layers.safetensors layers.npz
ckpt edit layers.npz -n --json -e 'drop s' | tr '{' '\n' | head -n 2
printf '\357\273\277drop s # with a mark\r\ncast \\\r\n  cube f32\r\n' >windows.txt
try --rules windows.txt && ckpt ls out.safetensors -g cube
# with ?, a concatenation may find nothing, but not a part of what it is about
try -e 'concat? h.{i}.q, h.{i}.z dim 0 -> h.{i}.x' && ckpt ls out.safetensors -g 'h.*'
try -e 'drop h.1.k' -e 'concat? h.{i}.q, h.{i}.k dim 0 -> h.{i}.x'
try -e 'concat? h.{i}.q, h.{j}.k dim 0 -> h.{i}.x'
try -e 'rename zzz => y'
