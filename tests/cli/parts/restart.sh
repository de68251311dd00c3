# A part that was killed after half of its bytes and is run again reads at most 60 % of the bytes.
strace -o trace true 2>/dev/null || { echo 'no strace, or it may not trace'; exit 77; }
# make_input - makes in.safetensors, of 20 MB in two tensors
make_input()
{
    printf '\220\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[2500000],"data_offsets":[0,10000000]},'
    printf '"b":{"dtype":"U8","shape":[10000000],"data_offsets":[10000000,20000000]}}%4s' ''
    seq 1 3000000 | head -c 20000000
}
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
