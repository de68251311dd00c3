# What does not fit, or is of another kind, is refused, and nothing is written.
. "$TESTS/lora_input.sh"
make_base
# refuse CONFIG - merges the tensors that were added, with these members of the config
refuse()
{
    write_peft a "$1"
    echo "# $title" >&2
    ckpt lora base.safetensors a -o out.safetensors
    code=$?
    [ $code = 2 ] && [ ! -e out.safetensors ] || echo "exit $code"
}
pair=base_model.model.fc
title='names: none, several, half a pair'
add_pair base_model.model.fd
add_pair base_model.model.layers.fc
add base_model.model.square.lora_A.weight F32 1,2 $one $one
refuse
ckpt rename -q base.safetensors -s '^fc=>a.fc' -s '^square=>b.fc' -o two.safetensors
add_pair fc
write_file plain.safetensors
echo '# two weights' >&2
ckpt lora two.safetensors plain.safetensors -o out.safetensors
title='shapes'
add $pair.lora_A.weight F32 1,2 $one $two
add $pair.lora_B.weight F32 2,1 $one $two
refuse
title='ranks'
add_pair $pair
refuse ',"rank_pattern":{"fc":4}'
title='a prefix that is not that of others'
ckpt rename -q base.safetensors -s '^square=>model.square' -o out2.safetensors
add_pair $pair
add base_model.model.square.lora_A.weight F32 1,2 $one $one
add base_model.model.square.lora_B.weight F32 2,1 $one $one
write_peft a
echo "# $title" >&2
ckpt lora out2.safetensors a -o out.safetensors
title='a tensor of no pair'
add_pair $pair
add base_model.model.square.weight F32 2,2 $one $one $one $one
refuse
title='modules_to_save that the model lacks: alone, with another prefix, twice'
add base_model.model.score.weight F32 1 $one
refuse ',"modules_to_save":["score"]'
for tensor in base_model.score.weight base_model.model.score.weight base_model.model.score; do
    add_pair $pair
    add "$tensor" F32 1 $one
    write_peft saved ',"modules_to_save":["score",""]'
    ckpt lora base.safetensors saved saved -o out.safetensors
done
rm -r saved
title='a magnitude without use_dora, and use_dora without one'
add_pair $pair
add $pair.lora_magnitude_vector F32 2 $one $one
refuse
add_pair $pair
refuse ',"use_dora":true'
title='kinds'
for config in '"bias":"all"' '"bias":"lora_only"' '"init_lora_weights":"pissa_niter_4"' '"target_parameters":["w"]' \
    '"trainable_token_indices":[1]' '"alora_invocation_tokens":[5]' '"use_qalora":true'; do
    add_pair $pair
    refuse ",$config"
done
add_pair $pair
write_peft a
for type in IA3 LOHA '\u001b'; do
    printf '{"peft_type":"%s"}' "$type" >a/adapter_config.json
    ckpt lora base.safetensors a -o out.safetensors
done
for name in hada_w1_a lokr_w1 lora_mid.weight diff oft_blocks dora_scale; do
    add "lora_unet_fc.$name" F32 2 $one $one
    write_file other.safetensors
    ckpt lora base.safetensors other.safetensors -o out.safetensors
done
rm a/adapter_config.json
echo '# no config' >&2
ckpt lora base.safetensors a -o out.safetensors
echo '# usage' >&2
ckpt lora base.safetensors
ckpt lora base.safetensors a
ckpt lora base.safetensors a -o out.safetensors --scale x
ckpt lora base.safetensors a a a -o out.safetensors --scale 1 --scale 2
ckpt lora base.safetensors missing -o out.safetensors
ckpt lora base.safetensors a -o out.safetensors --only 'nothing*'
title='no adapter'
echo "# $title" >&2
ckpt lora base.safetensors two.safetensors -o out.safetensors
