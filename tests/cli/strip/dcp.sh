# Renaming in a distributed checkpoint copies the files of items and writes new metadata.
dist=corpus/torch/t215/dist
ckpt add net. $dist/dcp_dtensor -o added
for f in $dist/dcp_dtensor/*.distcp; do cmp $f added/${f##*/} && echo the same; done
ckpt ls added
ckpt strip --json net. added -o stripped
ckpt diff $dist/dcp_dtensor stripped
ckpt rename --allow-none -s 'fc(\d)=>linear\1' $dist/dcp_dtensor -o renamed --quiet
ckpt ls renamed
# If only some tensors are kept, or names in a value change, new files are written.
ckpt strip --allow-none foo. --drop optim $dist/dcp_dtensor -o part
ls -A part
ckpt add net. $dist/dcp_fsdp2 -o deeper
ls -A deeper
ckpt add net. $dist/dcp_zstd -o zstd
ckpt ls zstd
ckpt add net. $dist/dcp_safetensors -o readable
ckpt ls readable
ckpt add -i net. $dist/dcp_zstd
