# parts_input.sh - an input of which parts have several steps. Sourced.
# make_input - prints a safetensors file of 20 MB in two tensors
make_input()
{
    printf '\220\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[2500000],"data_offsets":[0,10000000]},'
    printf '"b":{"dtype":"U8","shape":[10000000],"data_offsets":[10000000,20000000]}}%4s' ''
    seq 1 3000000 | head -c 20000000
}
# ids - replaces plan ids, which depend on the time of the input
ids() { sed 's/[0-9a-f]\{32\}/ID/g'; }
# require_strace - skips the test if no program can be traced here
require_strace() { strace -o trace true 2>/dev/null || { echo 'no strace, or it may not trace'; exit 77; }; }
