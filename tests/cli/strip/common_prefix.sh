# strip --auto leaves a prefix that may be a module, such as that of Lightning, and names it, as info does; if it removed
# something else, or if the prefix is that of a layer, it says nothing.
eco=corpus/torch/t215/eco
ckpt strip --auto $eco/lightning_2.6.6.ckpt -o out.ckpt
ckpt info $eco/lightning_2.6.6.ckpt | grep '^prefix'
ckpt strip net. $eco/lightning_2.6.6.ckpt -o net.ckpt
ckpt strip --auto net.ckpt -o again.ckpt
ckpt strip --auto data/train.pt -o bare.pt
ckpt strip --auto bare.pt -o bare2.pt
# The command that it prints works: a prefix that begins with '-' is no option, and no other key has the new name already.
# write KEY… - writes tensors of one byte to x.safetensors
write()
{
    json='{' n=0
    for key in "$@"; do
        json="$json\"$key\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[$n,$((n + 1))]},"
        n=$((n + 1))
    done
    { printf '\350\3\0\0\0\0\0\0%-1000s' "${json%,}}"; head -c $n /dev/zero; } >x.safetensors
}
write -x.a.w -x.b.w -x.c.w
ckpt strip --auto x.safetensors -o dash.safetensors
ckpt info x.safetensors | grep "^prefix"
ckpt strip -o OUT.safetensors -- -x. x.safetensors
write net.a.w net.b.w net.c.w net.d.w a.w
ckpt strip --auto x.safetensors -o taken.safetensors
ckpt info x.safetensors | grep "^prefix"
