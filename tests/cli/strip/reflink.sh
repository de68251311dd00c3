# If the file system can clone ranges, records of 1 MiB and more share blocks with the input. The output has the
# same bytes as without cloning.
mkfs=$(command -v mkfs.xfs || command -v mkfs.btrfs) || { echo 'no mkfs.xfs and no mkfs.btrfs'; exit 77; }
truncate -s 400M image
"$mkfs" -q image >/dev/null 2>&1 || { echo "$mkfs fails"; exit 77; }
mkdir fs
mount -o loop image fs 2>/dev/null || { echo 'an image cannot be mounted here'; exit 77; }
trap 'umount fs' EXIT
n=$((6 << 20))
head=$(printf '{"m.a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]},' $n $n
    printf '"m.b":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]},' $((n + 5)) $n $((2 * n + 5))
    printf '"m.c":{"dtype":"U8","shape":[9],"data_offsets":[%d,%d]}}' $((2 * n + 5)) $((2 * n + 14)))
{
    printf "\\$(printf %03o $((${#head} % 256)))\\$(printf %03o $((${#head} / 256)))\\0\\0\\0\\0\\0\\0%s" "$head"
    head -c $((2 * n + 14)) /dev/urandom
} >a.safetensors
used() { sync; df -k --output=used fs | tail -1; }
ckpt convert -q a.safetensors fs/a.pt
before=$(used)
for j in 1 2; do
    ckpt strip -q -j $j m. fs/a.pt -o fs/$j.pt
    ckpt strip -q -j $j m. fs/a.pt -o $j.pt
    cmp fs/$j.pt $j.pt
    cmp fs/1.pt $j.pt
done
[ $(($(used) - before)) -lt 1024 ] && echo shared
ckpt diff --ignore-prefix m. a.safetensors fs/1.pt
at=$(ckpt ls --json fs/a.pt | sed 's/.*"m.b".*"file_offset":\([0-9]*\).*"m.c".*/\1/')
printf XYZ | dd of=fs/a.pt bs=1 seek=$((at + 3000000)) conv=notrunc 2>/dev/null
ckpt strip -q m. fs/a.pt -o fs/bad.pt 2>/dev/null
echo $?
ls fs
