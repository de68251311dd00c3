# Layers that the model does not have are left out, if all others are there.
. "$TESTS/edit_input.sh"
for i in 0 1 2 3; do
    add_tensor "model.layers.$i.q" 2,3 abcdef
    add_tensor "model.layers.$i.experts.0.w" 2 ab
    add_tensor "model.layers.$i.experts.1.w" 2 ab
done
add_tensor model.norm 2 ab
write_tensors model.safetensors
# want LAYERS EXPERTS - prints the names of a model of these layers and experts
want()
{
    echo 'norm [2]'
    for i in $1; do
        echo "layers.$i.q [2, 3]"
        for e in $2; do echo "layers.$i.experts.$e.w [2]"; done
    done
}
match() { want "$1" "$2" | ckpt match - model.safetensors --rules; }
match '0 1' '0 1' && match '0 1' '0 1' 2>/dev/null >rules.txt && ckpt edit -q --no-sync model.safetensors -o out.safetensors --rules rules.txt &&
    ckpt ls out.safetensors
echo '# not the first ones, one more, all'
match '1 3' '0 1' 2>/dev/null
match '0 1 4' '0 1' 2>/dev/null
match '0 1 2 3' '0 1' 2>/dev/null
echo '# something else is missing: only perhaps'
{
    want '0 1' '0 1'
    echo 'bias [3]'
} | ckpt match - model.safetensors --rules 2>/dev/null
echo '# experts are not layers of a list of their own'
match '0 1 2 3' 0 2>/dev/null
echo '# a list without a name before it'
for i in 0 1 2; do add_tensor "$i.weight" 2 ab; done
write_tensors model.safetensors
printf '0.weight [2]\n1.weight [2]\n' | ckpt match - model.safetensors --rules 2>/dev/null
:
