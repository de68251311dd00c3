# After a prefix of two modules is stripped, _metadata has no path to a module that is gone.
in=corpus/torch/t215/dp_in_compiled.pt
left() { grep -ao '_orig_mod[a-z0-9_.]*' out.pt | grep -v other.; }
ckpt strip _orig_mod.module. $in -qo out.pt; left
ckpt strip --anywhere _orig_mod.module. $in -qfo out.pt; left
ckpt strip --auto $in -qfo out.pt; left
ckpt add net. $in -qo nested.pt
ckpt strip --anywhere _orig_mod.module. nested.pt -qfo out.pt; left
# A path stays if keys below it are left.
ckpt rename -s '^_orig_mod\.module\.fc2=>_orig_mod.other' $in -qo two.pt
ckpt strip _orig_mod.module. two.pt -qfo out.pt; left
