# doctor reports what a file really is if it is named like a checkpoint and is none.
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:07\nsize 97700000\n' >lfs.pt
echo '<!DOCTYPE html><html>' >page.pt
echo '<Error><Code>AccessDenied</Code></Error>' >xml.pt
echo '{"error":"Repository not found"}' >json.safetensors
printf 'Entry not found' >text.bin
: >empty.pt
head -c 5000 /dev/zero >zeros.pt
printf 'BZh91AY' >b.pt
printf '7z\274\257\047\034' >seven.pt
printf 'lmgg\3\0\0\0' >m.gguf
mkdir folder
for f in lfs.pt page.pt xml.pt json.safetensors text.bin empty.pt zeros.pt b.pt seven.pt m.gguf folder; do
    ckpt doctor $f
    echo $?
done
ckpt doctor --json lfs.pt
