# Each part reads its tensors only; a part that is recorded, and --part all, read none.
strace -o trace true 2>/dev/null || { echo 'no strace, or it may not trace'; exit 77; }
{
    printf '\220\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[2500000],"data_offsets":[0,10000000]},'
    printf '"b":{"dtype":"U8","shape":[10000000],"data_offsets":[10000000,20000000]}}%4s' ''
    seq 1 3000000 | head -c 20000000
} >in.safetensors
# count_read OPTION… - prints about how many megabytes of in.safetensors are read
count_read()
{
    strace -f -y -o trace -e trace=read,pread64 ckpt hash -j1 --xxh3 in.safetensors -q -o work "$@" >out
    awk '/in.safetensors>/ && / = [0-9]+$/ {n += $NF} END {printf "%.0f MB\n", n / 1e6}' trace
}
for part in 0/2 0/2 1/2 1/2 all; do echo "$part: $(count_read --part $part)"; done
ckpt hash --xxh3 in.safetensors | cmp - out && echo same
