# strip, add and rename write in parts, too; a file in which no name changes is copied.
. "$TESTS/parts_input.sh"
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
