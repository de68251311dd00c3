# info shows which prefixes strip --auto would remove, and which it would keep.
ckpt info corpus/torch/t215/dp_in_compiled.pt corpus/torch/t26/midkey_dataparallel.pt corpus/torch/t215/module_is_a_real_name.pt
cp corpus/torch/t26/dp_state_dict.pt "it is.pt"
ckpt info "it is.pt"
