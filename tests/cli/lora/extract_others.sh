# Differences that no pair of matrices expresses: refused, left out, or saved with their modules. Biases of all pairs
# become lora_bias.
. "$TESTS/lora_input.sh"
make_pair_of_models
need_lapack
add fc.bias F32 2 $one $one
add fc.weight F32 2,3 40800000 41000000 41100000 41000000 41500000 41600000
add square.weight F32 2,2 $one $zero $zero $one
add norm.weight F32 2 $one $two
add scale F32 1 $two
add steps.count I64 1 0500000000000000
write_file tuned.safetensors
add fc.bias F32 2 $zero $one
add fc.weight F32 2,3 $one $two $three $four $five $six
add square.weight F32 2,2 $one $zero $zero $one
add norm.weight F32 2 $one $one
add scale F32 1 $one
add steps.count I64 1 0400000000000000
write_file base.safetensors
echo '# refused' >&2
ckpt lora --extract base.safetensors tuned.safetensors --rank 1 -o a
echo "exit $?"
echo '# left out'
ckpt lora --extract base.safetensors tuned.safetensors --rank 1 -o a --others drop
ckpt ls a
echo '# scale is in no module' >&2
ckpt lora --extract base.safetensors tuned.safetensors --rank 1 -o b --others save
echo "exit $?"
echo '# saved'
ckpt lora --extract base.safetensors tuned.safetensors --rank 1 -o b --others save --only '!scale'
ckpt ls b
grep -A 9 -e lora_bias -e modules_to_save b/adapter_config.json
rm -r b
ckpt lora --extract base.safetensors tuned.safetensors --rank 1 -o b --others save --only '!s*' -q
ckpt lora base.safetensors b -q -o merged.safetensors
ckpt diff merged.safetensors tuned.safetensors --rtol 1e-6
echo '# a bias of a module whose matrix is the same'
ckpt edit -q tuned.safetensors -e 'set fc.weight = "base.safetensors":fc.weight' \
    -e 'set square.weight = "tuned.safetensors":square.weight' -o bias.safetensors
ckpt lora --extract base.safetensors bias.safetensors --rank 1 -o c --others save --only 'fc.*'
ckpt ls c
echo '# JSON'
ckpt lora --extract base.safetensors tuned.safetensors --rank 1 -n --others drop --json --only '!fc.weight' --only '!scale'
ckpt lora --extract base.safetensors tuned.safetensors --rank 1 -n --others drop --json | sed 's/0\.999999999[0-9]*/1.0/g'
