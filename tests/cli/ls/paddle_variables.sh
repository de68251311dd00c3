# fluid.io.save_persistables: a folder of one file for each variable, which is named for it, and no __model__
mkdir vars
for i in 1 2 3; do
    printf '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\004\0\0\0\010\005\020\001\0\0\0\100' >vars/fc_$i.w_0
done
ckpt ls vars
ckpt ls vars/fc_2.w_0
(cd vars && ckpt ls .)
ckpt convert vars -o vars.safetensors
ckpt diff vars vars.safetensors
ckpt salvage vars -o whole.safetensors
printf 'cut' >>vars/fc_2.w_0
ckpt ls vars
ckpt salvage vars -o left.safetensors
ckpt ls left.safetensors
echo notes >vars/README
ckpt ls vars
