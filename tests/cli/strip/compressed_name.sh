# A name that promises a compressed file is refused: what is written is not compressed.
gzip -c data/train.pt >train.pt.gz
ckpt strip --auto train.pt.gz -o out.pt.gz; echo $?
ckpt sanitize data/train.pt -o out.pt.zst; echo $?
ls out* 2>/dev/null
ckpt strip -q --auto --to torch-zip train.pt.gz -o out.pt.gz; echo $?
ckpt info train.pt.gz | grep load
