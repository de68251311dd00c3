# Without OUT, and for a folder in which several outputs were begun, a line for each; with --json a document for each.
. "$TESTS/parts_input.sh"
ckpt parts; echo $?
mkdir dir
for name in one two three; do ckpt convert -q --no-sync data/train.pt dir/$name.safetensors --part 0/2; done
ckpt parts dir; echo $?
ckpt parts --json dir/ | ids | sed 's/"updated":[0-9]*/"updated":1/g'
(cd dir && ckpt parts; ckpt parts -q .; ckpt parts --json | sed 's/"plan_id.*//')
ckpt convert -q --no-sync data/train.pt dir/two.safetensors --part 1/2
ckpt parts dir/two.safetensors
# two plans of one output, which --clean removes
cp -r dir saved
ckpt parts -q --clean dir/one.safetensors
ckpt convert -q --no-sync data/train.pt dir/one.safetensors --part 0/3 --cast bf16
mv -n saved/.ckpt-* dir/ 2>/dev/null
ckpt parts dir | sort
ckpt parts dir/one.safetensors 2>&1 | ids; ckpt parts dir/one.safetensors --clean
# a plan that cannot be read, and then one output only
echo '{}' >"$(grep -l three dir/.ckpt-*/plan.json)"
ckpt parts dir 2>&1 | ids; echo $?
rm -r "$(dirname "$(grep -L schema dir/.ckpt-*/plan.json)")"
ckpt parts dir; echo $?
ckpt merge-parts dir && ckpt parts dir; echo $?
ckpt parts --clean
# as long as no name is given, one output is a line, too
ckpt convert -q --no-sync data/train.pt set --to safetensors --max-shard-size 8kB --part 1/2
(cd set && ckpt parts); ckpt parts set
