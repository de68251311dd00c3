# `join` puts together what tensor-parallel ranks have written: files of the same names.
. "$TESTS/edit_input.sh"
make_rank()
{
    add_tensor row 2,2 "$2"
    add_tensor column 2,2 "$3"
    add_tensor norm 2 "$4"
    add_tensor freqs 2 "$5"
    write_tensors "$1.safetensors"
}
make_rank r0 abcd ABCD nn 12
make_rank r1 efgh EFGH nn 34
make_rank r2 ijkl IJKL nn 56
rules='join row dim 0 ; transpose
join column dim -1 -> col.umn
join nor*
drop freqs'
printf '%s\n' "$rules" >rules
for files in 'r0.safetensors' 'r0.safetensors r1.safetensors' 'r0.safetensors r1.safetensors r2.safetensors'; do
    # shellcheck disable=SC2086
    ckpt edit $files --shards --rules rules -f -o out.safetensors && letters out.safetensors
done
# of several formats
ckpt convert -q r0.safetensors r0.pt
ckpt edit r0.pt r1.safetensors --shards -q -f -o out.safetensors --rules rules && letters out.safetensors
try()
{
    echo "# $*" >&2
    ckpt edit r0.safetensors "$@" -o no.safetensors
    code=$?
    [ $code = 2 ] && [ ! -e no.safetensors ] || echo "exit $code"
}
try r1.safetensors --rules rules
try r1.safetensors --shards -e 'join row dim 0'
try r1.safetensors --shards -e 'drop row'
try r1.safetensors --shards -e 'join freqs'
try r1.safetensors --shards -e 'join row dim 2'
try r1.safetensors --shards -e 'transpose row' -e 'join row dim 0'
try r1.safetensors --shards -e 'split row dim 0 -> a, b' -e 'join b dim 0'
try missing.safetensors --shards --rules rules
add_tensor row 2,3 abcdef
add_tensor column 2,2 ABCD
add_tensor norm 3 nnn
write_tensors other.safetensors
ckpt edit r0.safetensors -q -o small.safetensors -e 'drop freqs'
try small.safetensors --shards --rules rules
echo '# other shapes' >&2
for rule in 'join row dim 0' 'join norm' 'join row dim 1'; do
    ckpt edit small.safetensors other.safetensors --shards -o no.safetensors -e "$rule"
done
# the output must not be one of the files
ckpt edit r0.safetensors r1.safetensors --shards --rules rules -f -o r1.safetensors
echo "exit $?"
