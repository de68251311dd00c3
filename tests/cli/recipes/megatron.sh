# The rows of q, k and v of two heads of two rows each, as each checkpoint_version of Megatron-LM has them.
. "$TESTS/edit_input.sh"
# split VERSION LETTERS [OPTION]... - splits query_key_value, whose rows are LETTERS, and fuses the parts again
split()
{
    recipe=megatron-$1 letters=$2
    shift 2
    add_tensor layers.0.attention.query_key_value.bias 12 "$letters"
    write_tensors in.safetensors
    echo "# $recipe $*"
    ckpt edit -q -f --no-sync in.safetensors -o split.safetensors --recipe "$recipe-qkv-split" -D heads=2 -D head_dim=2 "$@" &&
        letters split.safetensors
    ckpt edit -q -f --no-sync split.safetensors -o back.safetensors --recipe "$recipe-qkv-fuse" -D heads=2 -D head_dim=2 "$@" &&
        letters back.safetensors
}
# q is abcd, k is ABCD, v is 1234
split v0 abcdABCD1234 -D ranks=1
split v0 abAB12cdCD34 -D ranks=2
split v1 aA1bB2cC3dD4
ckpt edit -q -f --no-sync in.safetensors -o no.safetensors --recipe megatron-v0-qkv-split -D heads=2 -D head_dim=2
ckpt edit -q -f --no-sync in.safetensors -o no.safetensors --recipe megatron-v0-qkv-split -D heads=2 -D head_dim=2 -D ranks=3
ckpt edit -q -f --no-sync in.safetensors -o no.safetensors --recipe megatron-v1-qkv-split -D heads=5 -D hidden_size=4
add_tensor layers.0.attention.query_key_value.bias 12 abABefEFcdCD
write_tensors in.safetensors
ckpt edit -q -f --no-sync in.safetensors -o split.safetensors --recipe megatron-qkv-split -D heads=2 -D head_dim=2 &&
    letters split.safetensors
