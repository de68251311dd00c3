# A file of the work folder that was removed or truncated is not made again: it would have zeros where other parts have
# written. Merging moves nothing then, also if the file is removed while it moves.
. "$TESTS/parts_input.sh"
require_strace
make_input >in.safetensors
for i in 0 1; do ckpt convert -q --no-sync in.safetensors out.safetensors --part $i/3; done
mv .ckpt-*/out.safetensors kept
ckpt convert -q --no-sync in.safetensors out.safetensors --part 2/3 2>&1 | ids
ckpt parts out.safetensors | sed -n '2p; s/ *[0-9]* s ago .*: cannot/ cannot/; 3p'
ckpt merge-parts out.safetensors
head -c 10000000 kept >"$(echo .ckpt-*)/out.safetensors"
ckpt convert -q --no-sync in.safetensors out.safetensors --part 2/3 2>&1 | ids
mv kept .ckpt-*/out.safetensors
ckpt convert -q --no-sync in.safetensors out.safetensors --part 2/3
strace -f -o trace -e trace=rename -e inject=rename:delay_exit=3000000 ckpt merge-parts -q out.safetensors 2>err &
merge=$! tries=0
while ! ls .ckpt-*.closed >/dev/null 2>&1 && [ $tries -lt 300 ]; do sleep 0.1; tries=$((tries + 1)); done
rm .ckpt-*.closed/out.safetensors
wait $merge
echo $?
ids <err
ls -A | ids
