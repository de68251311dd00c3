# stat prints the same bytes for any number of threads, and for safetensors and .pt.
n=$((1 << 20))
head=$(printf '{"a":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]},' $n $((4 * n))
    printf '"b":{"dtype":"BF16","shape":[2,%d],"data_offsets":[%d,%d]},' $n $((4 * n)) $((8 * n))
    printf '"c":{"dtype":"I64","shape":[%d],"data_offsets":[%d,%d]},' $((n / 4)) $((8 * n)) $((10 * n))
    printf '"d":{"dtype":"F8_E4M3","shape":[%d],"data_offsets":[%d,%d]}}' $((2 * n)) $((10 * n)) $((12 * n)))
printf "\\$(printf %03o $((${#head} % 256)))\\$(printf %03o $((${#head} / 256)))\\0\\0\\0\\0\\0\\0%s" "$head" >big.safetensors
awk 'BEGIN { x = 7; for (i = 0; i < 1572864; i++) { x = x * 16807 % 2147483647; printf "%07x\n", x / 8 } }' >>big.safetensors
wc -c <big.safetensors
for j in 1 2 4 7; do
    ckpt stat -j $j --json big.safetensors >$j.json
    cmp 1.json $j.json
    ckpt stat -j $j big.safetensors >$j.txt
    cmp 1.txt $j.txt
done
cat 1.txt
ckpt convert -q big.safetensors big.pt
ckpt stat --tsv big.pt >pt.tsv
ckpt stat --tsv big.safetensors | cmp - pt.tsv
