# A full disk: the space for the output is reserved first, so a part fails at once, and can be run again.
mkdir small && mount -t tmpfs -o size=12m tmpfs small 2>/dev/null || { echo 'mounting needs root'; exit 77; }
trap 'umount small' EXIT
{
    printf '\110\0\0\0\0\0\0\0{"w":{"dtype":"U8","shape":[20000000],"data_offsets":[0,20000000]}}     '
    seq 1 3000000 | head -c 20000000
} >in.safetensors
ckpt convert -q in.safetensors small/out.safetensors --part 0/2 2>&1 | sed 's/[0-9a-f]\{32\}/ID/g'
ckpt parts small/out.safetensors | sed 's/ *[0-9]* s ago.*: / /'
mount -o remount,size=40m small
for i in 0 1; do ckpt convert -q in.safetensors small/out.safetensors --part $i/2; done
ckpt merge-parts -q --verify small/out.safetensors
cmp in.safetensors small/out.safetensors && ls -A small
