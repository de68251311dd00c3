# several inputs are merged by their weights: containers around them do not matter, and what is next to them is left out
ckpt convert -q --keep '*fc*' data/train.pt -o first.pt
ckpt convert -q --drop '*fc*' --drop optimizer data/train.pt -o second.pt
ckpt ls first.pt; ckpt ls second.pt
ckpt convert first.pt second.pt -o both.safetensors
ckpt diff --root-a state_dict --tensors-only data/train.pt both.safetensors
ckpt convert -q first.pt second.pt -o both.pt; ckpt ls --values both.pt
echo '# --root is looked for in each'
ckpt convert -q --root state_dict first.pt second.pt -o root.safetensors; echo $?
cmp both.safetensors root.safetensors
ckpt convert --root ema first.pt second.pt -o none.safetensors; echo $?
ckpt convert --root state_dict.module first.pt second.pt -o none.safetensors; echo $?
echo '# all of the files: one key, two containers'
ckpt convert --root '' first.pt second.pt -o none.pt; echo $?
echo '# a value that both have is that of the first'
ckpt convert -q --root state_dict first.pt -o plain.safetensors
ckpt convert plain.safetensors second.pt -o mixed.safetensors; ckpt diff both.safetensors mixed.safetensors
echo '# nothing is left out with --strict'
ckpt convert --strict plain.safetensors second.pt -o no.safetensors; echo $?
ckpt convert -q --strict plain.safetensors plain.safetensors -o no.safetensors; echo $?
echo '# one name by two paths'
ckpt convert -q corpus/flax/flax_model.msgpack -o flat.safetensors
ckpt convert --root '' corpus/flax/flax_model.msgpack flat.safetensors -o no.pt; echo $?
echo '# an adapter is not added to the weights that it adapts'
ckpt rename -q -s '^.*fc.weight=>base_model.model.fc.lora_A.weight' --keep '*fc.weight' plain.safetensors -o adapter.safetensors
ckpt convert plain.safetensors adapter.safetensors -o adapted.safetensors; echo $?
echo '# several files without -o'
ckpt convert first.pt second.pt out.pt
ckpt convert first.pt second.pt plain.safetensors
ckpt convert first.pt none.pt out.pt
