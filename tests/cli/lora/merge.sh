# What an adapter of peft adds, with its scale, patterns, biases, embeddings and modules_to_save; several adapters.
. "$TESTS/lora_input.sh"
make_base
add_pair base_model.model.fc
write_peft a
ckpt lora base.safetensors a -o out.safetensors
for name in fc.weight fc.bias square.weight; do ckpt show out.safetensors "$name"; done
echo '# scaled, twice, in other formats'
ckpt convert base.safetensors -q -o base.pt
add_pair model.fc
write_peft b ',"lora_alpha":8,"use_rslora":true' 2>/dev/null
sed 's/,"lora_alpha":2//' b/adapter_config.json >new && mv new b/adapter_config.json
ckpt convert b/adapter_model.safetensors -q -o b/adapter_model.bin
rm b/adapter_model.safetensors
ckpt lora base.pt a b --scale 0.5 --scale -1 -o out.pt -q
ckpt show out.pt fc.weight
echo '# patterns, a bias, an embedding, a replaced tensor'
add_pair base_model.model.fc
add base_model.model.fc.lora_B.bias F32 2 $one $two
add base_model.model.tokens.lora_embedding_A F32 2,3 $one $zero $zero $zero $one $zero
add base_model.model.tokens.lora_embedding_B F32 2,2 $one $two $three $four
add base_model.model.square.weight F32 2,2 $two $two $two $two
patterns='"rank_pattern":{"tok.*":2},"alpha_pattern":{"fc":3}'
write_peft c ',"lora_bias":true,'"$patterns"',"modules_to_save":["square"],"use_dora":false'
ckpt lora base.safetensors c -o out.safetensors -f
for name in fc.weight fc.bias square.weight tokens.weight; do ckpt show out.safetensors "$name"; done
ckpt lora base.safetensors a c -n -o out2.safetensors --json
ls
echo '# a head that the model lacks'
add base_model.model.score.weight F32 1,2 $three $four
add_pair base_model.model.fc
write_peft d ',"modules_to_save":["score","square"]'
ckpt lora base.safetensors d -o out.safetensors -f && ckpt show out.safetensors score.weight
ckpt lora base.safetensors d -n -o out2.safetensors --json | grep -o '[^{]*"addition"[^}]*'
ckpt rename -q base.safetensors -s '^=>model.' -o wrapped.safetensors
ckpt lora wrapped.safetensors d -o out.safetensors -f -q && ckpt ls out.safetensors
ckpt lora base.safetensors a d -o out.pt -f -q && ckpt ls out.pt
echo '# a module with an integer is saved as it is'
add norm.steps I64 1 0700000000000000
add norm.weight F32 1 $one
write_file counted.safetensors
add base_model.model.norm.steps I64 1 0900000000000000
add base_model.model.norm.weight F32 1 $two
write_peft e ',"modules_to_save":["norm"]'
ckpt lora counted.safetensors e -o counted2.safetensors
ckpt show counted2.safetensors norm.steps
add base_model.model.norm.steps I32 1 09000000
write_peft e ',"modules_to_save":["norm"]'
ckpt lora counted.safetensors e -o counted3.safetensors 2>&1 || exit 0
