# SIGKILL leaves a part unfinished and no output; the part is run again, and the output has the bytes that it would have
# had. The records of other parts stay as they are.
. "$TESTS/parts_input.sh"
require_strace
make_input >in.safetensors
ckpt convert -q --no-sync in.safetensors ref.safetensors --cast bf16
# convert_part OPTION… - writes a part of out.safetensors
convert_part() { ckpt convert -q -j1 in.safetensors out.safetensors --cast bf16 "$@"; }
# kill_part CALL N - kills part 1 at its Nth CALL
kill_part()
{
    convert_part --part 0/2
    stat -c %y .ckpt-*/part-0000-of-0002.json >before
    { strace -f -o trace -e trace="$1" -e inject="$1":signal=SIGKILL:when="$2" \
        ckpt convert -q -j1 in.safetensors out.safetensors --cast bf16 --part 1/2; } 2>/dev/null
    echo "$1 $2: $?"
    [ -e out.safetensors ] && echo 'an output'
    ckpt merge-parts -q out.safetensors 2>/dev/null
    echo $?
    convert_part --part 1/2
    stat -c %y .ckpt-*/part-0000-of-0002.json | cmp - before
    ckpt merge-parts -q --verify out.safetensors && cmp out.safetensors ref.safetensors && rm out.safetensors
    ls -A
}
for n in 1 2 9; do kill_part pwrite64 $n; done
for n in 1 2; do kill_part fdatasync $n; done
for call in mkdir linkat; do kill_part $call 1; done
kill_part linkat 2
kill_part renameat 1
