# checkpoints that are members of archives: by FILE!MEMBER, and by FILE where the names leave no choice
c=corpus/containers
for f in nemo_gz.nemo sb3.zip sb3_deflated.zip nested.tar two.tar.gz dcp.nemo; do
    ckpt ls $c/$f
done
ckpt ls "$c/sb3.zip!policy.optimizer.pth" | head -n 2
ckpt ls "$c/two.tar.gz!b.pt"
ckpt ls "$c/two.tar.gz!./a.pt" | wc -l | tr -d ' '
ckpt ls "$c/two.tar.gz!c.pt"
ckpt ls "$c/dcp.nemo!model_weights"
ckpt ls "$c/none.tar!c.pt"
ckpt ls "$c/sb3.zip!data"
ckpt diff $c/nemo_gz.nemo "$c/two.tar.gz!a.pt"
ckpt convert "$c/sb3.zip!policy.pth" -o policy.safetensors
ckpt strip 0. $c/nested.tar -o stripped.pt
ckpt diff $c/sb3_deflated.zip policy.safetensors
cp $c/nested.tar $c/sb3.zip .
ckpt rename -i -s '0=>x' nested.tar
ckpt rename -i -s '0=>x' sb3.zip
cmp nested.tar $c/nested.tar
ckpt verify nested.tar sb3.zip
ckpt scan "$c/two.tar.gz!a.pt"
ckpt doctor $c/nested.tar
mv nested.tar 'odd!name.tar'
ckpt ls 'odd!name.tar!sub/w.pt' | head -n 1
printf 'x' | dd of=sb3.zip bs=1 seek=2500 conv=notrunc 2>/dev/null
ckpt verify sb3.zip | head -n 1
