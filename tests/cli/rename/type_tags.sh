# torch::pickle_save of a C++ program puts restore_type_tag(value, type) around dicts and lists, torch.save of a
# TensorDict its class: edits keep them; sanitize, and formats of tensors alone, write what is in them
d=corpus/torch/libtorch215
ckpt rename -s 'a\.w=>w' $d/pickle_save_dict.pt -o dict.pt
ckpt ls dict.pt
grep -a -o -e restore_type_tag -e 'Dict\[str, Tensor\]' dict.pt
cp $d/pickle_save_generic.pt generic.pt
ckpt rename -i -s '^a=>A' generic.pt
ckpt ls --values generic.pt
ckpt show generic.pt inner
ckpt add net. $d/tensordict.pt -o td.pt
grep -a -o -e _make_td -e _batch_size td.pt | sort | uniq -c
ckpt ls td.pt
ckpt sanitize $d/tensordict_inside.pt -o clean.pt
ckpt ls --values clean.pt
ckpt sanitize $d/pickle_save_dict_of_lists.pt -o clean.pt -f
ckpt info clean.pt | grep load
ckpt convert $d/pickle_save_dict.pt -o flat.safetensors
ckpt diff $d/pickle_save_dict.pt flat.safetensors
