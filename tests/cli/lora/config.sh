# A malformed adapter_config.json is refused; nothing is written.
. "$TESTS/lora_input.sh"
make_base
add_pair base_model.model.fc
write_peft a
while IFS= read -r config; do
    printf '%s' "$config" >a/adapter_config.json
    echo "# $config" >&2
    ckpt lora base.safetensors a -o out.safetensors || [ $? = 2 ] || echo crashed
    rm -f out.safetensors
done <<'END'

[]
{
{"r":1}
{"lora_alpha":1}
{"r":0,"lora_alpha":1}
{"r":-1,"lora_alpha":1}
{"r":1.5,"lora_alpha":1}
{"r":99999999999999999999,"lora_alpha":1}
{"r":"1","lora_alpha":1}
{"r":1,"r":1,"lora_alpha":1}
{"r":1,"lora_alpha":1e999}
{"r":1,"lora_alpha":NaN}
{"r":1,"lora_alpha":true}
{"r":1,"lora_alpha":1,"use_rslora":1}
{"r":1,"lora_alpha":1,"rank_pattern":[]}
{"r":1,"lora_alpha":1,"rank_pattern":{"fc":"1"}}
{"r":1,"lora_alpha":1,"rank_pattern":{"(":1}}
{"r":1,"lora_alpha":1,"rank_pattern":{"a\u0000b":1}}
{"r":1,"lora_alpha":1,"alpha_pattern":{"(a*)*\\1":1}}
{"r":1,"lora_alpha":1,"modules_to_save":"head"}
{"r":1,"lora_alpha":1,"modules_to_save":[1]}
{"r":1,"lora_alpha":1,"bias":null}
{"r":1,"lora_alpha":1,"peft_type":{}}
{"r":1,"lora_alpha":1} x
{"r":1,"lora_alpha":1,"new_feature":false}
{"r":1,"lora_alpha":1,"new_feature":{"a":[1,{"b":2}]},"\u001b[1m":1}
END
