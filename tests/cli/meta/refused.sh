# The errors of meta name what is refused, and what is possible instead.
. "$TESTS/safetensors.sh"
print_safetensors '{"a":["U8",[1],[0,1]]}' x >a.safetensors
try() { ckpt meta "$@"; echo $?; }
try data/train.pt
try data/train.pt a=b -o out.pt
try a.safetensors a
try a.safetensors =b -n
try a.safetensors k=v
try a.safetensors -o out
try a.safetensors k=v k=w -n
try a.safetensors k=v --unset k -n
try a.safetensors k=v -i -o out
try a.safetensors k=v --follow-links -o out
try a.safetensors k=v -o ''
try - k=v -i
try a.safetensors "k=$(printf '\377')" -n
try none.safetensors
mkdir set; cp a.safetensors set/1.safetensors
echo '{"metadata":{"total_size":1,"by":"me","t":"a"},"weight_map":{"a":"1.safetensors"}}' >set/model.safetensors.index.json
try set
try set k=v -n
# a copy has the format of the file, so its name must not have the suffix of another
try a.safetensors k=v -o out.pt
try corpus/gguf/metadata.gguf k.u8=7 -o out.safetensors
