# A compressed checkpoint that is cut off or damaged: the error message says so, and to get the file again.
ckpt hash corpus/compressed/tiny.safetensors.zst 2>&1 | grep -q libarchive && { echo 'libarchive is not here'; exit 77; }
for packing in gz bz2 xz zst; do
    packed=corpus/compressed/tiny.safetensors.$packing
    size=$(wc -c <$packed)
    head -c $((size - 8)) $packed >cut.safetensors.$packing
    ckpt ls cut.safetensors.$packing
    { head -c $((size / 2)) $packed; printf 'damage'; tail -c $((size / 2 - 6)) $packed; } >bad.safetensors.$packing
    ckpt ls bad.safetensors.$packing 2>&1 | sed 's/broken compressed data: .*/broken compressed data: .../'
done
head -c 12 corpus/compressed/tiny.safetensors.bz2 >short.bz2
ckpt ls short.bz2
: | gzip -nc >empty.pt.gz
ckpt ls empty.pt.gz
# tensor NAME BEGIN END - prints the entry of a tensor of bytes in a header of safetensors
tensor() { printf '"%s":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}' $1 $(($3 - $2)) $2 $3; }
{
    printf '\310\1\0\0\0\0\0\0'
    printf '%-456s' "{$(tensor a 0 9999),$(tensor b 9999 70000),$(tensor c 70000 90000),$(tensor d 90000 150000),$(
        tensor e 150000 170000),$(tensor f 170000 309999)}"
    seq 100000 | head -c 309999
} >long.safetensors
ckpt hash long.safetensors >hashes
# a block of LZ4 that is stored: 310463 bytes, of which 200000 are there
{ printf '\4\42\115\30\144\140\205\277\274\4\200'; head -c 200000 long.safetensors; } >cut.lz4
ckpt ls cut.lz4
ckpt salvage cut.lz4 -o saved.safetensors
# what precedes the end of a truncated file is salvaged, not less than the programs unpack of it
for program in 'bzip2 -1' lz4 'lz4 -B4' 'lz4 -B4 -BD -BX' xz 'xz --format=lzma' zstd 'zstd -19'; do
    command -v ${program%% *} >/dev/null || continue
    $program -c long.safetensors >long 2>long.err
    head -c $(($(wc -c <long) * 3 / 4)) long >cut
    least=$(${program%% *} -dc <cut 2>long.err | wc -c)
    salvaged=$(ckpt salvage cut -o saved.safetensors -f 2>&1 | sed -n 's/.*only \([0-9]*\) bytes.*/\1/p')
    [ "${salvaged:-0}" -ge $least ] || echo "$program: $salvaged bytes, not $least"
    [ "${salvaged:-0}" -lt 10463 ] || ckpt hash saved.safetensors | sed '$d' | grep -vxFf hashes
done
command -v xz >/dev/null || { echo 'there is no xz'; exit 77; }
xz -c long.safetensors >long.safetensors.xz
head -c $(($(wc -c <long.safetensors.xz) / 2)) long.safetensors.xz >cut.xz
ckpt doctor cut.xz
ckpt salvage cut.xz -o saved.safetensors -f 2>&1 | sed 's/only [0-9]* bytes/only N bytes/; / is lost:/d'
