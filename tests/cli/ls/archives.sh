# archives of files that other programs made: what macOS adds is no checkpoint, shards are one, and checksums count
c=corpus/containers
ckpt ls $c/macos.zip
ckpt ls $c/shards.zip
ckpt convert -q "$c/shards.zip!sub" -o one.safetensors && ckpt ls one.safetensors
ckpt verify $c/stored.zip
ckpt salvage $c/stored.zip -o whole.safetensors
cp $c/stored.zip flip.zip
printf 'x' | dd of=flip.zip bs=1 seek=110 conv=notrunc 2>/dev/null
ckpt verify flip.zip
ckpt salvage flip.zip -o saved.safetensors; echo $?
ckpt doctor $c/nemo_gz.nemo $c/sb3.zip # which their own programs load
