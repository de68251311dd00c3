# strip, add and rename write the weights to a format of named tensors, as convert does, say which and count what is left out.
for command in 'strip module.' 'add x.' 'rename -s module=>m'; do
    for out in out.safetensors out.npz; do
        # shellcheck disable=SC2086
        ckpt $command data/train.pt -f -o $out; ckpt ls $out | wc -l
    done
done
# --root selects something else, "" everything; a torch file keeps everything.
ckpt strip module. --root '' data/train.pt -o all.safetensors
ckpt strip module. -n data/train.pt --to npz -o out
ckpt strip module. data/train.pt -o out.pt
