# If the input changes while a part is written, the part fails, and its record is removed: if the time of the input is
# set back, running it again would go on after what was read from another content.
. "$TESTS/parts_input.sh"
require_strace
make_input >input
tr 1 7 <input | dd of=changed bs=1000 skip=1 2>/dev/null

# change_input OPTION… - changes the input while the part waits after its first record, then sets back its time
change_input()
{
    cp input in.safetensors
    touch -d 2020-01-01 in.safetensors
    { strace -f -o trace -e trace=fdatasync,renameat -e inject=fdatasync:delay_enter=3000000:when=3 "$@" \
        ckpt convert -q -j1 in.safetensors out.safetensors --part 0/1; } 2>err &
    part=$! tries=0
    while ! ls .ckpt-*/part-* >/dev/null 2>&1 && [ $tries -lt 300 ]; do sleep 0.1; tries=$((tries + 1)); done
    dd if=changed of=in.safetensors bs=1000 seek=1 conv=notrunc 2>/dev/null
    { wait $part; } 2>/dev/null
    echo $?
    ids <err
    ls .ckpt-*/part-* 2>/dev/null
    touch -d 2020-01-01 in.safetensors
    ckpt convert -q --no-sync in.safetensors out.safetensors --part 0/1
    ckpt merge-parts -q out.safetensors
    cmp in.safetensors out.safetensors && rm out.safetensors
}
change_input
# the same if it is killed before it ends: it does not replace its record after the input has changed
change_input -e inject=renameat:signal=SIGKILL:when=2
