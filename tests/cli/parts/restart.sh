# A part that was killed after half of its bytes and is run again reads at most 60 % of the bytes.
. "$TESTS/parts_input.sh"
require_strace
make_input >in.safetensors
# count_read - prints how many bytes of in.safetensors the traced program has read
count_read() { awk '/in.safetensors>/ && / = [0-9]+$/ {n += $NF} END {print n + 0}' trace; }
trace_part() { strace -f -y -o trace "$@" ckpt convert -q -j1 in.safetensors out.safetensors --part 0/1; }
trace_part -e trace=pread64
all=$(count_read)
ckpt parts out.safetensors --clean -q
{ trace_part -e trace=pread64,fdatasync -e inject=fdatasync:signal=SIGKILL:when=4; } 2>/dev/null
ckpt parts -q out.safetensors | sed 's/ *[0-9]* s ago//'
trace_part -e trace=pread64
again=$(count_read)
[ "$all" -ge 20000000 ] && [ "$again" -gt 0 ] && [ $((again * 10)) -le $((all * 6)) ] || echo "$again of $all bytes"
ckpt merge-parts -q --verify out.safetensors && cmp in.safetensors out.safetensors && echo same
