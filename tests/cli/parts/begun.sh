# What is written, read and shown while parts of an output are begun.
. "$TESTS/parts_input.sh"
make_input >in.safetensors
for i in 0 1; do ckpt convert -q --no-sync in.safetensors out.safetensors --part $i/3; done
# nothing is written at once, except with -f
ckpt convert -q --no-sync in.safetensors out.safetensors 2>&1 | ids
ckpt strip -q --no-sync a. in.safetensors -o ./out.safetensors --allow-none -n 2>&1 | ids
ckpt convert -q --no-sync in.safetensors other.safetensors
ckpt convert -q --no-sync -f in.safetensors out.safetensors && cmp in.safetensors out.safetensors && rm out.safetensors
# a file of the folder
work=$(echo .ckpt-*)
ckpt ls "$work"/out.safetensors 2>&1 | ids
head -c 20000152 /dev/zero >"$work"/new.safetensors
ckpt ls "$work"/new.safetensors 2>&1 | ids
ckpt ls "$work/" 2>&1 | ids
rm "$work"/new.safetensors
# a failure that is older than the record: the part runs again
printf '{"schema":"ckpt.part-failure.v1","plan_id":"%s","part":1,"message":"it failed"}\n' "${work#.ckpt-}" >"$work"/failed-0001.json
sed -i 's/"done":true/"done":false/' "$work"/part-0001-of-0003.json
touch -d 2020-01-01 "$work"/failed-0001.json
ckpt parts out.safetensors | sed -n 's/ *[0-9]* s ago.*//; 2p'
touch "$work"/failed-0001.json
ckpt parts out.safetensors | sed -n 's/ *[0-9]* s ago *//; 2p'
# the input changes
touch in.safetensors
ckpt convert -q --no-sync in.safetensors out.safetensors --part 2/3 2>&1 | ids
