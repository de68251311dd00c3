# scan reads a .distcp file with safetensors in it: archives of values, then one file of tensors.
V=corpus/torch/t26/zero_dim.pt
ckpt scan corpus/torch/t215/dist/dcp_safetensors
ckpt convert -q $V tensors.safetensors
ckpt convert -q $V value.pt
cat value.pt value.pt value.pt tensors.safetensors >__0_0.distcp
cat value.pt tensors.safetensors tensors.safetensors >twice.distcp
cat value.pt tensors.safetensors value.pt >value_after.distcp
(cat value.pt tensors.safetensors; printf x) >more.distcp
(cat value.pt; printf x; cat tensors.safetensors) >gap.distcp
(cat value.pt; head -c 60 tensors.safetensors) >cut.distcp
cat value.pt corpus/torch/t26/whole_model_custom.pt tensors.safetensors >calls.distcp
ckpt scan *.distcp
