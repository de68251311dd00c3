# Checkpoints in a compressed file are read, but not edited in place.
compressed=corpus/compressed
ckpt hash $compressed/tiny.safetensors.zst 2>&1 | grep -q libarchive && { echo 'libarchive is not here'; exit 77; }
for kind in gz zst xz bz2; do ckpt ls $compressed/tiny.safetensors.$kind; done
ckpt diff $compressed/tiny.safetensors.gz $compressed/tiny.safetensors.bz2
ckpt ls --json $compressed/tiny.safetensors.gz
ckpt ls - <$compressed/tiny.safetensors.gz
ckpt convert $compressed/tiny.safetensors.xz -o out.pt
ckpt verify -q $compressed/tiny.safetensors.gz out.pt
cp $compressed/tiny.safetensors.gz edited.gz
ckpt add x. -i edited.gz
ckpt doctor edited.gz
cmp edited.gz $compressed/tiny.safetensors.gz && echo unchanged
head -c 100 edited.gz >cut.gz
ckpt ls cut.gz
ckpt salvage cut.gz -o saved.safetensors
gzip -nc edited.gz >twice.gz
ckpt ls twice.gz
ckpt ls --max-expanded 100 edited.gz
echo words | gzip -nc | ckpt ls -
