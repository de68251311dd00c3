# --clean removes no files through a symbolic link.
ckpt convert -q --no-sync data/train.pt out.safetensors --part 0/2
mkdir elsewhere
mv .ckpt-* elsewhere/
ln -s elsewhere/.ckpt-* .
ckpt parts out.safetensors --clean 2>&1 | sed 's/[0-9a-f]\{32\}/ID/g'
ls elsewhere/.ckpt-*
