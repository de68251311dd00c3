# The findings of parts, in any number and order, are those of one process; each fault of the data is found by one part.
ckpt convert -q --root state_dict data/train.pt damaged.pt
chmod u+w damaged.pt
for name in module.conv2.weight module.fc.bias; do
    offset=$(ckpt ls --json damaged.pt | tr '{' '\n' | grep "\"$name\"" | sed 's/.*"file_offset":\([0-9]*\).*/\1/')
    printf XYZ | dd of=damaged.pt bs=1 seek=$((offset + 5)) conv=notrunc 2>/dev/null
done
# run OPTION… - what is compared
run() { ckpt verify --finite damaged.pt "$@"; }
. "$TESTS/share_parts.sh"
