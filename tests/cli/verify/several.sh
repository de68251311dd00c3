# verify reports all faults, not only the first: of a tar of torch 0.1, in which a tensor has no storage and another is
# too long; of an early TorchScript archive; of a zip archive whose central directory has a wrong size and CRC-32.
edit() { printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; }
find_in() { LC_ALL=C grep -abo "$2" "$1" | head -n 1 | cut -d: -f1; }
cp corpus/torch/legexp/t_tar.pt tar.pt
cp corpus/torch/t10/torchscript_trace.pt script.pt
cp corpus/torch/t26/tied.pt zip.pt
chmod u+w ./*.pt
edit tar.pt 2571 z
edit tar.pt 2676 '\11'
ckpt verify tar.pt
edit script.pt "$(find_in script.pt FLOAT)" FLOTA
edit script.pt "$(($(find_in script.pt '"tensorId":"7"') + 12))" 9
# corrects the CRC-32 of model.json in script.pt: the last 8 bytes of gzip's output are the CRC-32 and the length
from=$(find_in script.pt '{"protoVersion') size=1943
for at in $(LC_ALL=C grep -aboP '\x32\x95\xac\x71' script.pt | cut -d: -f1); do
    tail -c +$((from + 1)) script.pt | head -c $size | gzip -c | tail -c 8 | head -c 4 |
        dd of=script.pt bs=1 seek="$at" conv=notrunc 2>/dev/null
done
ckpt verify script.pt
at=$(find_in zip.pt "$(printf 'PK\1\2')")
edit zip.pt $((at + 24)) '\377'
edit zip.pt $((at + 16)) '\0\0\0\0'
ckpt verify zip.pt
