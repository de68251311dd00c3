# After a prefix of two modules is stripped, _metadata has no path to a module that is gone.
in=corpus/torch/t215/dp_in_compiled.pt
# print_paths - prints the paths to removed modules that out.pt still has
print_paths() { grep -ao '_orig_mod[a-z0-9_.]*' out.pt | grep -v other.; }
ckpt strip _orig_mod.module. $in -qo out.pt; print_paths
ckpt strip --anywhere _orig_mod.module. $in -qfo out.pt; print_paths
ckpt strip --auto $in -qfo out.pt; print_paths
ckpt add net. $in -qo nested.pt
ckpt strip --anywhere _orig_mod.module. nested.pt -qfo out.pt; print_paths
# A path stays if keys below it are left.
ckpt rename -s '^_orig_mod\.module\.fc2=>_orig_mod.other' $in -qo two.pt
ckpt strip _orig_mod.module. two.pt -qfo out.pt; print_paths
