# One part run twice at the same time, and a part that still runs when the parts are merged.
. "$TESTS/parts_input.sh"
require_strace
make_input >in.safetensors
for n in 1 2 3; do
    for i in 0 1 1 0 1; do ckpt convert -q in.safetensors out.safetensors --part $i/2 & done
    wait
    ckpt merge-parts -q --verify out.safetensors && cmp in.safetensors out.safetensors && rm out.safetensors
done
# It waits before its third fdatasync. Its record shows the ranges before that; meanwhile all parts are written.
strace -f -o trace -e trace=fdatasync -e inject=fdatasync:delay_enter=4000000:when=3 \
    ckpt convert -q -j1 in.safetensors out.safetensors --part 0/2 2>err &
late=$!
tries=0
while ! ls .ckpt-*/part-0000-of-0002.json >/dev/null 2>&1 && [ $tries -lt 300 ]; do sleep 0.1; tries=$((tries + 1)); done
ckpt convert -q --no-sync in.safetensors out.safetensors --part 1/2
ckpt convert -q --no-sync in.safetensors out.safetensors --part 0/2
ckpt merge-parts -q --verify out.safetensors
wait $late
echo $?
sed 's/ckpt-[0-9a-f]*/ckpt-ID/g' err
cmp in.safetensors out.safetensors && echo same
ls -A
# and one that begins afterwards
ckpt convert -q in.safetensors out.safetensors --part 0/2; echo $?
