# DoRA: each row of the sum gets the length that the magnitude gives.
# The rows of [[3, 4], [0, 1]] have the lengths 5 and 1.
. "$TESTS/lora_input.sh"
make_base
add base_model.model.square.lora_A.weight F32 1,2 $one $two
add base_model.model.square.lora_B.weight F32 2,1 $one $zero
add base_model.model.square.lora_magnitude_vector F32 2 $five $one
write_peft a ',"use_dora":true'
ckpt lora base.safetensors a -o out.safetensors
ckpt show out.safetensors square.weight
echo '# stored as [in, out], each column'
sed 's/"use_dora"/"fan_in_fan_out":true,"use_dora"/' a/adapter_config.json >new && mv new a/adapter_config.json
ckpt lora base.safetensors a -f -q -o out.safetensors
ckpt show out.safetensors square.weight
