# legacy.sh - makes files as torch.save wrote them before 1.6. Sourced.
# print_tensor N - prints in protocol 0 a tensor of four floats: those at 4 * N to 4 * N + 3 in storage 0
print_tensor()
{
    printf 'ctorch._utils\n_rebuild_tensor_v2\n((Vstorage\nctorch\nFloatStorage\nV0\nVcpu\nI64\nNtQ'
    printf 'I%d\n(I4\nt(I1\ntI00\nccollections\nOrderedDict\n)RtR' $((4 * $1))
}
# write_legacy FILE OBJECT - writes FILE: magic, version, sizes of C's types, OBJECT in protocol 0, the key of storage
# 0, and its 64 floats, all zero
write_legacy()
{
    {
        printf '\200\2\212\12l\374\234F\371 j\250P\31.\200\2M\351\3.\200\2}.%s.(lV0\na.\100\0\0\0\0\0\0\0' "$2"
        head -c 256 /dev/zero
    } >"$1"
}
