# Renaming in a distributed checkpoint copies the files of items and writes new metadata.
D=corpus/torch/t215/dist
ckpt add net. $D/dcp_dtensor -o added
for f in $D/dcp_dtensor/*.distcp; do cmp $f added/${f##*/} && echo the same; done
ckpt ls added
ckpt strip --json net. added -o stripped
ckpt diff $D/dcp_dtensor stripped
ckpt rename -s 'fc(\d)=>linear\1' $D/dcp_dtensor -o renamed --quiet
ckpt ls renamed
# If only some tensors are kept, or names in a value change, new files are written.
ckpt strip foo. --drop optim $D/dcp_dtensor -o part
ls -A part
ckpt add net. $D/dcp_fsdp2 -o deeper
ls -A deeper
ckpt add net. $D/dcp_zstd -o zstd
ckpt ls zstd
ckpt add net. $D/dcp_safetensors -o readable
ckpt ls readable
ckpt add -i net. $D/dcp_zstd
