# What is read next to the input is of the plan, and so is what changes how it is read: parts do not mix if it differs.
. "$TESTS/parts_input.sh"
. "$TESTS/safetensors.sh"
# write_second OPTION… - tries to write the second part, then removes both
write_second()
{
    ckpt convert -q --no-sync "$@" -o out.safetensors --part 1/2 2>&1 | ids | sed 's/ {.*//'
    ckpt parts -q out.safetensors --clean
}
# config.json has the size of the blocks of quantized weights
mkdir blocks
print_safetensors '{"w":{"dtype":"F8_E4M3","shape":[1,100],"data_offsets":[0,100]},"w_scale_inv":{"dtype":"F32","shape":[1,2],"data_offsets":[100,108]}}' \
    "$(printf '%100s' '' | tr ' ' 8)"'\0\0\200\077\0\0\0\100' >blocks/model.safetensors
echo '{"quantization_config": {"weight_block_size": [50, 50]}}' >blocks/config.json
ckpt convert -q --no-sync --dequantize blocks/model.safetensors -o out.safetensors --part 0/2
echo '{"quantization_config": {"weight_block_size": [96, 96]}}' >blocks/config.json
write_second --dequantize blocks/model.safetensors
# rules of how ranks divide tensors
echo '{"*.linear_fc1.*": 0}' >rules.json
ckpt convert -q --no-sync --parallel rules.json corpus/megatron/tp2_pp2 -o out.safetensors --part 0/2
echo '{"*.linear_fc1.*": [0, 2]}' >rules.json
write_second --parallel rules.json corpus/megatron/tp2_pp2
# checksums that are not checked
ckpt convert -q --no-sync data/train.pt -o out.safetensors --part 0/2
write_second --ignore-crc data/train.pt
