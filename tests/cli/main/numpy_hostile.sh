# Headers of .npy that are malformed, deeply nested or 4 GiB long are refused, as are encrypted members of a .npz.
numpy=corpus/numpy/np2
# version 1.0, 64 bytes of header: an expression in the dtype
{ printf '\223NUMPY\001\000\100\000'; printf '%-63s\n' "{'descr': __import__('os').system('id')}"; } >import.npy
# version 2.0, 1,000,000 bytes of header: only brackets
{ printf '\223NUMPY\002\000\100\102\017\000'; printf '%1000000s' '' | tr ' ' '('; } >brackets.npy
# version 2.0, a header of 4 GiB that is missing, or is a hole in the file
printf '\223NUMPY\002\000\377\377\377\377{' >no_header.npy
cp no_header.npy sparse.npy
truncate -s 4294967400 sparse.npy
# encrypt FILE - sets the flag of encryption in all headers of the zip FILE. The flags are at byte 6 of a local header
# and at byte 8 of a central header.
encrypt()
{
    for header in 'PK\x03\x04 6' 'PK\x01\x02 8'; do
        for offset in $(LC_ALL=C grep -abPo "${header% *}" "$1" | cut -d: -f1); do
            printf '\001' | dd of="$1" bs=1 seek=$((offset + ${header#* })) conv=notrunc 2>/dev/null
        done
    done
}
cp $numpy/stored.npz encrypted.npz
chmod u+w encrypted.npz
encrypt encrypted.npz
for f in *.npy *.npz; do
    for command in ls hash verify 'scan -q' 'salvage -f -o saved.pt'; do
        echo "== $command $f"
        ckpt $command $f 2>&1 | grep -v '^hint'
    done
done
