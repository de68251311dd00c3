# a checkpoint in compressed data or in an archive is not edited in place, although its header has room
ckpt convert corpus/torch/t215/dp_state_dict.pt -q -o a.safetensors
ckpt meta a.safetensors room=for_the_other_key -q -o b.safetensors
gzip -k b.safetensors
tar -cf b.tar b.safetensors
for f in b.safetensors.gz b.tar 'b.tar!b.safetensors'; do
    cp "${f%%!*}" before
    ckpt meta -i "$f" room=
    ckpt add -i x. "$f"
    cmp "${f%%!*}" before
done
# an error has its offset in the member
printf '\001' | dd of=b.tar bs=1 seek=521 conv=notrunc 2>/dev/null
ckpt ls 'b.tar!b.safetensors'
