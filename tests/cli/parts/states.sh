# The state of each part: missing, begun, failed, done. --clean removes all parts.
. "$TESTS/parts_input.sh"
make_input >in.safetensors
ckpt parts out.safetensors; echo $?
ckpt convert -q --no-sync in.safetensors out.safetensors --part 1/4 --cast bf16
ckpt parts out.safetensors; echo $?
ckpt parts --json out.safetensors | sed 's/"updated":[0-9]*/"updated":1/g; s/"plan_id":"[0-9a-f]*"/"plan_id":"ID"/'
ckpt merge-parts out.safetensors; echo $?
ckpt merge-parts -q out.safetensors; echo $?
ckpt merge-parts --json out.safetensors | sed 's/"plan_id":"[0-9a-f]*"/"plan_id":"ID"/'
# done before
ckpt convert --no-sync in.safetensors out.safetensors --part 1/4 --cast bf16
ckpt convert --no-sync in.safetensors out.safetensors --part 1/4 --cast bf16 --json |
    sed 's/"plan_id":"[0-9a-f]*"/"plan_id":"ID"/'
# a dry run writes nothing
ckpt convert in.safetensors out.safetensors --part 2/4 --cast bf16 -n
ckpt parts -q out.safetensors
# a part that fails
work=$(echo .ckpt-*)
mkdir "$work"/part-0000-of-0004.json
ckpt convert -q --no-sync in.safetensors out.safetensors --part 0/4 --cast bf16 2>/dev/null; echo $?
rmdir "$work"/part-0000-of-0004.json
ckpt parts out.safetensors | sed -n 's/ *[0-9]* s ago .*: cannot/ cannot/; 1p'
ckpt parts out.safetensors --json | sed 's/"updated":[0-9]*/"updated":1/g; s/[0-9a-f]\{32\}/ID/g'
ckpt convert -q --no-sync in.safetensors out.safetensors --part 0/4 --cast bf16
ckpt parts out.safetensors | sed -n 1p
ckpt parts out.safetensors --clean
ckpt parts out.safetensors --clean; echo $?
ckpt convert -q --no-sync in.safetensors set --max-shard-size 9MB --part 0/2
ckpt convert -q --no-sync in.safetensors set --max-shard-size 9MB --part 1/2
for out in set set/ set/model.safetensors set/model.safetensors.index.json; do ckpt parts $out | tail -n 1; done
ckpt parts set --clean --json
ls -A set
