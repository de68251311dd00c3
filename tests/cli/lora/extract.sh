# An adapter of the difference of two models: what it has, what is reported, and the model that it makes of the base.
. "$TESTS/lora_input.sh"
make_pair_of_models
need_lapack
ckpt lora --extract base.safetensors tuned.safetensors --rank 1 -o a
cat a/adapter_config.json
ckpt ls a
for name in $(ckpt ls a | cut -d ' ' -f 1); do ckpt show a "$name"; done
echo '# back again: what rank 1 does not keep is missing'
ckpt lora base.safetensors a -q -o merged.safetensors
ckpt diff merged.safetensors tuned.safetensors
echo '# rank 2 keeps all; a pair has as much as it needs'
ckpt lora --extract base.safetensors tuned.safetensors --rank 2 -o b -q
grep -A 3 pattern b/adapter_config.json
ckpt lora base.safetensors b -q -o merged.safetensors -f
ckpt diff merged.safetensors tuned.safetensors --rtol 1e-6
echo '# any number of threads, another format, another dtype, some tensors'
ckpt convert tuned.safetensors -q -o tuned.pt
ckpt lora --extract base.safetensors tuned.pt --rank 2 -o c -q -j 3
cmp b/adapter_model.safetensors c/adapter_model.safetensors && cmp b/adapter_config.json c/adapter_config.json
ckpt lora --extract base.safetensors tuned.pt --rank 2 -o c -q -f --cast bf16 --only 'f*'
ckpt ls c
echo '# JSON, and a dry run'
ckpt lora --extract base.safetensors tuned.safetensors --rank 1 -n -o d --json |
    sed 's/0\.999999999[0-9]*/1/g; s/\([0-9]\.[0-9]\{9\}\)[0-9]*/\1/g'
ckpt lora --extract base.safetensors tuned.safetensors --rank 1 -n
ls
