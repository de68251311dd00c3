# The names that kohya-ss and diffusers give to the tensors; prefixes; what --only leaves out.
. "$TESTS/lora_input.sh"
make_base
merge()
{
    ckpt lora "$@" -f -o out.safetensors && ckpt show out.safetensors fc.weight 2>/dev/null
}
add lora_unet_fc.lora_down.weight F32 1,3 $one $two $three
add lora_unet_fc.lora_up.weight F32 2,1 $one $minus_one
add lora_unet_fc.alpha F32 '' $two
write_file kohya.safetensors
merge base.safetensors kohya.safetensors
add unet.fc.lora.down.weight F32 1,3 $one $two $three
add unet.fc.lora.up.weight F32 2,1 $one $minus_one
add text_encoder.fc.lora_linear_layer.down.weight F32 1,3 $one $two $three
add text_encoder.fc.lora_linear_layer.up.weight F32 2,1 $one $minus_one
write_file diffusers.safetensors
merge base.safetensors diffusers.safetensors --only 'unet.*'
echo '# a prefix in the model; underscores in names of modules'
ckpt rename -q base.safetensors -s '^fc=>model.in_proj.q_k' -o named.safetensors
add lora_te_in_proj_q_k.lora_down.weight F32 1,3 $one $two $three
add lora_te_in_proj_q_k.lora_up.weight F32 2,1 $one $minus_one
write_file kohya2.safetensors
merge named.safetensors kohya2.safetensors
ckpt show out.safetensors model.in_proj.q_k.weight
echo '# attention processors'
ckpt rename -q base.safetensors -s '^fc=>attn1.to_out.0' -o attention.safetensors
add attn1.processor.to_out_lora.down.weight F32 1,3 $one $two $three
add attn1.processor.to_out_lora.up.weight F32 2,1 $one $minus_one
write_file processor.safetensors
merge attention.safetensors processor.safetensors
ckpt show out.safetensors attn1.to_out.0.weight
echo '# scales in the metadata'
header='"__metadata__":{"lora_adapter_metadata":"{\"unet.r\":1,\"unet.lora_alpha\":4,\"text_encoder.r\":9}"}'
add_pair unet.fc
write_file described.safetensors
merge base.safetensors described.safetensors
