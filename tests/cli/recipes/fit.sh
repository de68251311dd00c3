# A recipe takes its parameters from config.json next to the file, or from -D, and refuses what it is not for.
. "$TESTS/edit_input.sh"
# q, k and v of two heads of size 1 are a c e and b d f
make_neox()
{
    add_tensor "$1layers.0.attention.query_key_value.weight" 6,2 aAcCeEbBdDfF
    add_tensor "$1layers.0.attention.query_key_value.bias" 6 acebdf
    add_tensor "$1layers.0.attention.dense.weight" 2,2 wxyz
    add_tensor "$1layers.0.attention.masked_bias" '' m
    write_tensors neox.safetensors
}
for prefix in gpt_neox. ''; do
    make_neox "$prefix"
    ckpt edit neox.safetensors -o split.safetensors -f --recipe neox-qkv-split -D heads=2 &&
        letters split.safetensors
    mkdir -p model && mv split.safetensors model/model.safetensors
    echo '{"num_attention_heads": 2}' >model/config.json
    ckpt edit model -o back.safetensors -f --recipe neox-qkv-fuse && letters back.safetensors
done
ckpt edit model -n --json --recipe neox-qkv-fuse
# rules after those of a recipe, in the same run; -D comes before config.json
ckpt edit model -q -f -o back.safetensors --recipe neox-qkv-fuse -D heads=1 -e 'keep *.query_key_value.bias'
letters back.safetensors
# what does not fit
try()
{
    echo "# $*" >&2
    ckpt edit "$@" -o no.safetensors
    code=$?
    [ $code = 2 ] && [ ! -e no.safetensors ] || echo "exit $code"
}
try neox.safetensors --recipe neox-qkv-split
try neox.safetensors --recipe neox-qkv-split -D head=2
try neox.safetensors --recipe neox-qkv-split -D heads=5
try neox.safetensors --recipe falcon-qkv-split -D heads=2
try neox.safetensors --recipe falcon-qkv-split -D heads=2 -D head_dim=1 -D kv_heads=1
try neox.safetensors --recipe mixtral-v4-to-v5
try neox.safetensors --recipe gpt2-conv1d-to-linear -D width=4
for value in 4.5 -2 0 '"2"' 2147483648 1e1 true null '[2]'; do
    echo "{\"num_attention_heads\": $value, \"n_heads\": 2}" >config.json
    try neox.safetensors --recipe neox-qkv-split
done
for text in '' '[]' '{"num_attention_heads": 2' '{"num_attention_heads": 2, "num_attention_heads": 1}'; do
    printf %s "$text" >config.json
    try neox.safetensors --recipe neox-qkv-split
done
