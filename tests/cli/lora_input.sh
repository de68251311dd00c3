# lora_input.sh - a small model, and adapters for it. Sourced.
. "$TESTS/average_input.sh"
half=3f000000 five=40a00000 six=40c00000
# make_base - writes base.safetensors: fc.weight is [[1, 2, 3], [4, 5, 6]], square.weight [[1, 0], [0, 1]], …
make_base()
{
    add fc.bias F32 2 $zero $one
    add fc.weight F32 2,3 $one $two $three $four $five $six
    add square.weight F32 2,2 $one $zero $zero $one
    add tokens.weight BF16 3,2 3f80 4000 4040 4080 40a0 40c0
    write_file base.safetensors
}
# add_pair MODULE - adds to an adapter a pair of rank 1 for a weight [2, 3]: the product is [[1, 2, 3], [-1, -2, -3]]
add_pair()
{
    add "$1.lora_A.weight" F32 1,3 $one $two $three
    add "$1.lora_B.weight" F32 2,1 $one $minus_one
}
# write_peft FOLDER CONFIG - writes the tensors that were added as an adapter of peft. CONFIG: members of its config
write_peft()
{
    mkdir -p "$1"
    printf '{"peft_type":"LORA","r":1,"lora_alpha":2%s}' "$2" >"$1/adapter_config.json"
    write_file "$1/adapter_model.safetensors"
}
# make_pair_of_models - writes base.safetensors and tuned.safetensors, in which fc.weight differs by [[3, 6, 6],
# [4, 8, 8]] of rank 1, square.weight by [[4, 0], [0, 3]], and the embedding embed_tokens.weight by [[1], [1]]
make_pair_of_models()
{
    add fc.bias F32 2 $zero $one
    add fc.weight F32 2,3 $one $two $three $four $five $six
    add square.weight F32 2,2 $one $zero $zero $one
    add embed_tokens.weight BF16 2,1 3f80 4000
    write_file base.safetensors
    add fc.bias F32 2 $zero $one
    add fc.weight F32 2,3 40800000 41000000 41100000 41000000 41500000 41600000
    add square.weight F32 2,2 $five $zero $zero $four
    add embed_tokens.weight BF16 2,1 4000 4040
    write_file tuned.safetensors
}
# need_lapack - ends the case unless LAPACK is installed
need_lapack()
{
    ckpt lora --extract base.safetensors tuned.safetensors --rank 1 -n 2>&1 | grep -q 'cannot be loaded' || return 0
    echo 'LAPACK is not installed'
    exit 77
}
