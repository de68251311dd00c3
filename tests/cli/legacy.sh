# legacy.sh - files as torch.save wrote them before 1.6, laid out by hand: legacy FILE TEXT, where TEXT is a pickle of
# protocol 0, and tensor N in it a vector of four floats, the Nth of sixteen. Sourced.
tensor()
{
    printf 'ctorch._utils\n_rebuild_tensor_v2\n((Vstorage\nctorch\nFloatStorage\nV0\nVcpu\nI64\nNtQ'
    printf 'I%d\n(I4\nt(I1\ntI00\nccollections\nOrderedDict\n)RtR' $((4 * $1))
}
legacy() # magic, version, sizes of C's types, the object, keys of storages, their elements
{
    {
        printf '\200\2\212\12l\374\234F\371 j\250P\31.\200\2M\351\3.\200\2}.%s.(lV0\na.\100\0\0\0\0\0\0\0' "$2"
        head -c 256 /dev/zero
    } >"$1"
}
