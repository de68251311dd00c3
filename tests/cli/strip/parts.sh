# strip, add and rename write in parts, too; a file in which no name changes is copied.
# make_input - makes in.safetensors, of 20 MB in two tensors
make_input()
{
    printf '\220\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[2500000],"data_offsets":[0,10000000]},'
    printf '"b":{"dtype":"U8","shape":[10000000],"data_offsets":[10000000,20000000]}}%4s' ''
    seq 1 3000000 | head -c 20000000
}
make_input >in.safetensors
# compare NAME COMMAND… - compares three parts with the output that is written at once
compare()
{
    name=$1
    shift
    ckpt "$@" -q --no-sync -o "ref-$name" || return
    for i in 2 0 1; do ckpt "$@" -q --no-sync -o "out-$name" --part $i/3 || echo "part $i"; done
    ckpt merge-parts -q --verify "out-$name" && cmp "ref-$name" "out-$name" && echo "$name same"
}
compare add.safetensors add enc. in.safetensors
compare strip.safetensors strip enc. ref-add.safetensors
compare rename.safetensors rename -s 'a=>c' in.safetensors
compare copy.safetensors strip none. in.safetensors --allow-none 2>/dev/null
cmp in.safetensors out-copy.safetensors
ckpt strip enc. ref-add.safetensors -o out.safetensors --no-sync --part 1/3
ckpt strip enc. ref-add.safetensors -o out.safetensors --no-sync --part 1/3 --json | sed 's/"plan_id":"[0-9a-f]*"/"plan_id":"ID"/'
