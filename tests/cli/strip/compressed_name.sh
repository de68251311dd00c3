# An output name with the suffix of a compressed file is refused, because ckpt writes uncompressed files.
gzip -c data/train.pt >train.pt.gz
ckpt strip --auto train.pt.gz -o out.pt.gz; echo $?
ckpt sanitize data/train.pt -o out.pt.zst; echo $?
ckpt strip --auto data/train.pt -o out.7z; echo $?
ls out* 2>/dev/null
ckpt strip -q --auto --to torch-zip train.pt.gz -o out.pt.gz; echo $?
ckpt info train.pt.gz | grep load
