# verify finds all damage, not only the first: in two records, then also in the pickle. It still reads all tensors.
ckpt convert -q --root state_dict data/train.pt t.pt
chmod u+w t.pt
overwrite() { dd of=t.pt bs=1 seek="$1" conv=notrunc 2>/dev/null; } # overwrite OFFSET <BYTES
for name in module.conv2.weight module.fc.bias; do
    offset=$(ckpt ls --json t.pt | tr '{' '\n' | grep "\"$name\"" | sed 's/.*"file_offset":\([0-9]*\).*/\1/')
    printf XYZ | overwrite $((offset + 5)) # inside the tensor
done
ckpt verify t.pt
echo $?
name_in_pickle=$(LC_ALL=C grep -abo module.bn1.bias t.pt | head -n 1 | cut -d: -f1)
printf X | overwrite $((name_in_pickle + 3))
ckpt verify -q t.pt
ckpt verify --json t.pt | sed 's/"findings":\[\({[^}]*}\).*/\1/'
ckpt verify t.pt --finite -j 3 2>/dev/null | tail -n 1
