# A plan.json that cannot be read stops only the output that it may be of: the one of which a file is in its folder.
. "$TESTS/parts_input.sh"
ckpt convert -q --no-sync data/train.pt one.safetensors --part 0/2
for broken in '{}' ''; do
    echo "$broken" >"$(echo .ckpt-*)/plan.json"
    ckpt convert -q --no-sync data/train.pt two.safetensors --part 0/1
    ckpt parts two.safetensors
    ckpt merge-parts two.safetensors && rm two.safetensors
    ckpt convert -q --no-sync data/train.pt one.safetensors --part 1/2 --cast bf16 2>&1 | ids
    ckpt parts one.safetensors 2>&1 | ids
done
rm -r .ckpt-*
ckpt convert -q --no-sync data/train.pt set --to safetensors --max-shard-size 8kB --part 0/2
echo >"$(echo set/.ckpt-*)/plan.json"
for out in set set/model.safetensors; do ckpt parts $out 2>&1 | ids; done
ckpt convert -q --no-sync data/train.pt set/other.safetensors --part 0/1 && ckpt merge-parts -q set/other.safetensors
# names of the folder's own files
for name in plan.json part-1.json failed-.json; do ckpt convert data/train.pt $name --to safetensors --part 0/2; done
ckpt convert -q data/train.pt part-1.safetensors --part 0/1 && ckpt merge-parts part-1.safetensors
