# The output has the same bytes for any number of threads: in one file, in shards, on standard output.
[ "$(df -Pk . | awk 'END {print $4}')" -gt 700000 ] || { echo 'takes 700 MB of a disk'; exit 77; }
n=$((18 << 20))
head=$(printf '{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},'
    printf '"b":{"dtype":"F32","shape":[%d],"data_offsets":[12,%d]},' $n $((4 * n + 12))
    printf '"c":{"dtype":"BF16","shape":[5],"data_offsets":[%d,%d]}}' $((4 * n + 12)) $((4 * n + 22)))
printf "\\$(printf %03o $((${#head} % 256)))\\$(printf %03o $((${#head} / 256)))\\0\\0\\0\\0\\0\\0%s" "$head" >a.safetensors
at=$((8 + ${#head}))
truncate -s $((at + 4 * n + 22)) a.safetensors
for place in 0 8 16 20000 $((64 << 20)) $(((64 << 20) + 8)) $((4 * n)) $((4 * n + 8)); do
    printf 'place%9d' $place | dd of=a.safetensors bs=1 seek=$((at + place)) conv=notrunc 2>/dev/null
done
for j in 1 2 4 7; do
    ckpt convert -q --no-sync -j $j a.safetensors $j.pt
    ckpt convert -q --no-sync -j $j --cast f16 a.safetensors half$j.pt
    ckpt convert -q --no-sync -j $j --cast f16 --to safetensors a.safetensors -o - >half$j.safetensors
    ckpt strip -q --allow-none --no-sync -j $j b. 1.pt -o strip$j.pt
    ckpt convert -q --no-sync -j $j --max-shard-size 50MB 1.pt shards$j
    for f in $j.pt half$j.pt half$j.safetensors strip$j.pt shards$j/*-00001* shards$j/*.json; do
        cmp "$f" "$(echo "$f" | sed "s/^\([a-z]*\)$j/\11/")"
    done
    [ $j = 1 ] || rm -r $j.pt half$j.* strip$j.pt shards$j
done
ckpt diff a.safetensors 1.pt
ckpt diff -q a.safetensors shards1 && ckpt diff -q 1.pt strip1.pt && echo same
ckpt diff half1.safetensors half1.pt
ckpt convert -q -j x a.safetensors x.pt
