# verify finds all damage, not only the first, and still reads the rest: bytes of two records, and the pickle.
ckpt convert -q --root state_dict data/train.pt t.pt
chmod u+w t.pt
flip()
{
    at=$(($(LC_ALL=C grep -abo "$1" t.pt | head -n 1 | cut -d: -f1) + $2))
    printf X | dd of=t.pt bs=1 seek="$at" conv=notrunc 2>/dev/null
}
for name in module.conv2.weight module.fc.bias; do
    at=$(ckpt ls --json t.pt | tr '{' '\n' | grep "\"$name\"" | sed 's/.*"file_offset":\([0-9]*\).*/\1/')
    printf XYZ | dd of=t.pt bs=1 seek="$((at + 5))" conv=notrunc 2>/dev/null
done
ckpt verify t.pt
echo $?
flip 'module.bn1.bias' 3
ckpt verify -q t.pt
ckpt verify --json t.pt | sed 's/"findings":\[\({[^}]*}\).*/\1/'
ckpt verify t.pt --finite -j 3 2>/dev/null | tail -n 1
