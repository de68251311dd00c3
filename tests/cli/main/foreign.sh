# A file that is no checkpoint is refused, with what it is and what to do.
echo "<!DOCTYPE html><html>" >a; : >b; printf "lmgg\003\000\000\000" >c; head -c 2000 data/train.pt >d; mkdir e
for f in a b c d e /dev/null nope; do ckpt ls $f; echo $?; done
for line in "oid sha256:07" "size 7"; do
    printf 'version https://git-lfs.github.com/spec/v1\n%s\n' "$line" >lfs.pt; ckpt ls lfs.pt; echo $?
done
ckpt ls --json a
