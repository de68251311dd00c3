# The findings of parts, in any number and order, are those of one process; each fault of the data is found by one part.
ckpt convert -q --root state_dict data/train.pt damaged.pt
chmod u+w damaged.pt
for name in module.conv2.weight module.fc.bias; do
    offset=$(ckpt ls --json damaged.pt | tr '{' '\n' | grep "\"$name\"" | sed 's/.*"file_offset":\([0-9]*\).*/\1/')
    printf XYZ | dd of=damaged.pt bs=1 seek=$((offset + 5)) conv=notrunc 2>/dev/null
done
# run OPTION… - what is compared
run() { ckpt verify --finite damaged.pt "$@"; }
run >text.one; echo "exit $?"
run --json >json.one
for n in 1 2 5 64; do
    for i in $(seq 0 $((n - 1)) | sort -R); do run --part $i/$n -o work -q || echo "part $i/$n: $?"; done
    run --part all -o work >text.all; echo "$n parts: exit $?"
    run --part all -o work --json >json.all
    cmp text.one text.all && cmp json.one json.all
    ckpt parts -q work --clean
done
