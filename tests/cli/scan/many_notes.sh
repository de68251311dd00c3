# No number of notes hides a finding: 1,100 configurations before a pickle, in one archive.
mkdir d
i=0
while [ $i -lt 1100 ]; do
    printf '{"auto_map": {"a": "m%s.C"}}' $i >d/a$i.json
    i=$((i + 1))
done
printf 'cinert_mod\nC\n(tR.' >d/z.pkl
(cd d && tar -cf ../many.tar a*.json z.pkl)
ckpt scan many.tar >out
echo "exit $?"
grep -c note out
grep -v note out
# An archive without members is a zip, whatever its name.
printf 'PK\005\006\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000' >empty.zip
cp empty.zip empty.npz
ckpt scan empty.zip empty.npz
