# An output that is written in parts has the bytes of one that is not, for any number of parts, in any order, with any
# number of threads, for both units; a part may have no bytes.
[ "$(df -Pk . | awk 'END {print $4}')" -gt 400000 ] || { echo 'takes 400 MB of a disk'; exit 77; }

# add_tensor NAME DTYPE SHAPE BYTES - adds a tensor to $head, whose bytes are the next of the data
at=0 fields='{'
add_tensor()
{
    head=$(printf '%s"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}' "$fields" "$1" "$2" "$3" $at $((at + $4)))
    fields="$head," at=$((at + $4))
}
add_tensor big F32 3000,1000 12000000
add_tensor bytes U8 9437185 9437185
add_tensor empty F32 0 0
add_tensor half BF16 2100,999 4195800
add_tensor last F32 1 4
head="$head}"
while [ $((${#head} % 8)) -ne 0 ]; do head="$head "; done
{
    printf "\\$(printf %03o $((${#head} % 256)))\\$(printf %03o $((${#head} / 256)))\\0\\0\\0\\0\\0\\0%s" "$head"
    seq 1 4000000 | head -c $at
} >in.safetensors

# write_parts N OPTION… - writes out in N parts, in an order that is not theirs, then merges
write_parts()
{
    n=$1
    shift
    awk -v n="$n" 'BEGIN {srand(7); for (i = 0; i < n; i++) print rand(), i}' | sort | cut -d' ' -f2 >order
    while read -r i; do
        ckpt convert -q --no-sync "$@" -j $((i % 3 + 1)) in.safetensors out --part "$i/$n" || echo "part $i of $n"
    done <order
    ckpt merge-parts -q --verify out
    ls -A out
}

# compare OPTION… - compares what parts write with what is written at once
compare()
{
    ckpt convert -q --no-sync "$@" in.safetensors ref 2>/dev/null
    ls -A ref >names
    for n in 1 2 5 7 64; do
        for unit in range file; do
            write_parts $n --part-unit=$unit "$@" 2>&1 | diff names - && diff -r ref out && rm -r out && echo "$n $unit same"
        done
    done
    rm -r ref
}
compare --max-shard-size 1GB
compare --max-shard-size 9MB --cast bf16
# one file, not in a folder of its own
ckpt convert -q --no-sync in.safetensors ref.safetensors --cast f64
for i in 2 0 1; do ckpt convert --no-sync in.safetensors out.safetensors --cast f64 --part $i/3; done
ckpt merge-parts out.safetensors && cmp out.safetensors ref.safetensors && ls -A
