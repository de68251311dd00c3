# a byte of a stored member is changed: its checksum in the archive is compared before its tensors are read
flip() { cp "$1" "$2" && printf 'x' | dd of="$2" bs=1 seek="$3" conv=notrunc 2>/dev/null; }
flip corpus/containers/stored.zip flip.zip 110
flip corpus/keras/tfk/sub.keras flip.keras 16000
for file in flip.zip 'flip.zip!d/m.safetensors' flip.keras; do
    ckpt ls -q "$file" >/dev/null; echo "ls $?"
    for command in hash stat "diff $file" 'convert --dry-run -o x.npz'; do
        ckpt $command "$file" >/dev/null; echo "$command: $?"
    done
    ckpt hash --ignore-crc "$file" >/dev/null; echo "ignored $?"
    ckpt verify "$file" >/dev/null; echo "verify $?"
done
