# The experts of DeepSeek-V3 and Mixtral are stacked with the scales of their blocks, if they are in FP8, and back.
. "$TESTS/average_input.sh"
# add_fp8 NAME - adds a weight of two blocks, and their scales
add_fp8()
{
    add "$1" F8_E4M3 2,2 38 39 3a 3b
    add "$1_scale_inv" F32 2,1 $one $two
}
for e in 0 1; do
    for part in gate up down; do add_fp8 "model.layers.3.mlp.experts.$e.${part}_proj.weight"; done
done
add_fp8 model.layers.3.mlp.shared_experts.up_proj.weight
write_file deepseek.safetensors
for e in 0 1; do
    for part in w1 w2 w3; do add_fp8 "model.layers.0.block_sparse_moe.experts.$e.$part.weight"; done
done
write_file mixtral.safetensors
both()
{
    ckpt edit -q --no-sync "$1" -o stacked.safetensors -f --recipe "$2-v4-to-v5" && ckpt ls stacked.safetensors
    ckpt edit -q --no-sync stacked.safetensors -o back.safetensors -f --recipe "$2-v5-to-v4" && ckpt diff "$1" back.safetensors
}
both deepseek.safetensors moe-experts
both mixtral.safetensors mixtral
# scales of another kind are not left behind
ckpt rename -q -s '_scale_inv$=>_scale' deepseek.safetensors -o int8.safetensors
ckpt edit -q --no-sync int8.safetensors -o stacked.safetensors -f --recipe moe-experts-v4-to-v5
code=$?
ckpt edit -q --no-sync deepseek.safetensors -o stacked.safetensors -f -e 'drop *.1.up_proj.weight_scale_inv' 2>/dev/null &&
    ckpt edit -q --no-sync stacked.safetensors -o none.safetensors --recipe moe-experts-v4-to-v5
ls none.safetensors 2>/dev/null
exit $code
