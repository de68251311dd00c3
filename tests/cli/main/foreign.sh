# A file that is no checkpoint is refused, with what it is and what to do.
echo "<!DOCTYPE html><html>" >page
: >empty
printf "lmgg\003\000\000\000" >ggml
head -c 2000 data/train.pt >cut
mkdir folder
for f in page empty ggml cut folder /dev/null missing; do ckpt ls $f; echo $?; done
# a Git LFS pointer with only one of its two lines
for line in "oid sha256:07" "size 7"; do
    printf 'version https://git-lfs.github.com/spec/v1\n%s\n' "$line" >lfs.pt; ckpt ls lfs.pt; echo $?
done
ckpt ls --json page
