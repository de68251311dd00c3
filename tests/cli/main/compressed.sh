# Checkpoints in a compressed file are read, but not edited in place.
d=corpus/compressed
ckpt hash $d/tiny.safetensors.zst 2>&1 | grep -q libarchive && { echo 'libarchive is not here'; exit 77; }
for kind in gz zst xz bz2; do ckpt ls $d/tiny.safetensors.$kind; done
ckpt diff $d/tiny.safetensors.gz $d/tiny.safetensors.bz2
ckpt ls --json $d/tiny.safetensors.gz
ckpt ls - <$d/tiny.safetensors.gz
ckpt convert $d/tiny.safetensors.xz -o out.pt
ckpt verify -q $d/tiny.safetensors.gz out.pt
cp $d/tiny.safetensors.gz edited.gz
ckpt add x. -i edited.gz
ckpt doctor edited.gz
cmp edited.gz $d/tiny.safetensors.gz && echo unchanged
head -c 100 edited.gz >cut.gz
ckpt ls cut.gz
ckpt salvage cut.gz -o saved.safetensors
gzip -nc edited.gz >twice.gz
ckpt ls twice.gz
ckpt ls --max-expanded 100 edited.gz
echo words | gzip -nc | ckpt ls -
