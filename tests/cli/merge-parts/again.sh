# Merging what was merged is no error, if the output is complete: a job that is run again gets the answer that it needs.
# again OUT - merges OUT
again() { ckpt merge-parts "$@"; echo $?; }
again out.safetensors
ckpt convert -q --no-sync data/train.pt out.safetensors --part 0/1
again out.safetensors
again out.safetensors 2>&1
again out.safetensors --json
again out.safetensors -q
head -c 9000 out.safetensors >cut.safetensors
again cut.safetensors
ckpt convert -q --no-sync data/train.pt set --to safetensors --max-shard-size 8kB --part 0/1
again set -q
for out in set set/ set/model.safetensors set/model.safetensors.index.json; do again $out 2>&1; done
rm "$(find set -name "model-*" | head -n 1)"
again set 2>/dev/null
mkdir empty
again empty
