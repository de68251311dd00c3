# Tensors that share bytes count once; a line shows whose bytes they are. A composite tensor has its components below it.
ckpt tree corpus/torch/t26/tied.pt
ckpt tree --json corpus/torch/t26/tied.pt
ckpt tree --draw corpus/deepspeed/zero3_fp32 -g '*emb*' -g '*head*'
ckpt tree corpus/torch/t215/quant_axes.pt corpus/torch/t215/sparse_coo.pt
# Of folded tensors, the number of those that have the bytes of an earlier one is shown.
. "$TESTS/safetensors.sh"
print_safetensors '{"__metadata__":{"h.1.w":"h.0.w","h.3.w":"h.2.w"},"h.0.w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"h.2.w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}' xy >t.safetensors
ckpt tree t.safetensors
ckpt ls --json t.safetensors | sed 's/.*"total"/"total"/'
