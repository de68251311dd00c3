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
# what precedes the end of a truncated file is salvaged, but for the block that was not complete
command -v xz >/dev/null || { echo 'there is no xz'; exit 77; }
{
    printf '\310\0\0\0\0\0\0\0'
    printf '%-200s' '{"a":{"dtype":"U8","shape":[9999],"data_offsets":[0,9999]},"b":{"dtype":"U8","shape":[300000],"data_offsets":[9999,309999]}}'
    seq 100000 | head -c 309999
} >long.safetensors
ckpt verify -q long.safetensors
xz -c long.safetensors >long.safetensors.xz
head -c $(($(wc -c <long.safetensors.xz) - 8)) long.safetensors.xz >cut.xz
ckpt doctor cut.xz
ckpt salvage cut.xz -o saved.safetensors 2>&1 | sed 's/only [0-9]* bytes/only N bytes/'
