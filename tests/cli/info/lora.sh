# LoRA weights are named, with their rank: those of peft, kohya-ss with alpha, diffusers, mlx, whose matrices are transposed,
# and of a square weight; no pair, no LoRA.
eco=corpus/torch/t215/eco
for file in $eco/peft_lora/adapter_model.safetensors $eco/peft_full_state_dict.pt; do
    ckpt info $file | grep '^adapter'
    ckpt doctor $file
done
ckpt info --json $eco/peft_lora/adapter_model.safetensors

# write NAME SHAPE … - writes tensors of float16 to x.safetensors, and prints what info says of them
write()
{
    json='{' end=0 comma=''
    while [ $# -gt 0 ]; do
        size=2
        for n in $(echo "$2" | tr ',' ' '); do size=$((size * n)); done
        json="$json$comma\"$1\":{\"dtype\":\"F16\",\"shape\":[$2],\"data_offsets\":[$end,$((end + size))]}"
        end=$((end + size)) comma=,
        shift 2
    done
    { printf '\350\3\0\0\0\0\0\0%-1000s' "$json}"; head -c $end /dev/zero; } >x.safetensors
    ckpt info x.safetensors | grep '^adapter' || echo 'no adapter'
}
unet=lora_unet_down_blocks_0_attentions_0_proj_in
write $unet.alpha '' $unet.lora_down.weight 4,8,1,1 $unet.lora_up.weight 16,4,1,1 \
    lora_te_fc1.alpha '' lora_te_fc1.lora_down.weight 2,8 lora_te_fc1.lora_up.weight 8,2
write to_q_lora.down.weight 4,8 to_q_lora.up.weight 6,4 to_k.lora_linear_layer.down.weight 4,8 \
    to_k.lora_linear_layer.up.weight 8,4
write layers.0.q_proj.lora_a 8,3 layers.0.q_proj.lora_b 3,8 embed.lora_embedding_A 3,20 embed.lora_embedding_B 8,3
write q.lora_A.weight 4,8 k.lora_B.weight 8,4 explorer.lora_Ab.weight 4,8 lora_A 4,8 lora_B 5,5
# The names fix which dimension is the rank, which may be greater than the weight; matrices of two ranks are no pair.
write q.lora_A.weight 64,16 q.lora_B.weight 16,64
write q.lora_down.weight 128,8 q.lora_up.weight 8,128 q.alpha ''
write q.lora_A.weight 8,16 q.lora_B.weight 16,4
