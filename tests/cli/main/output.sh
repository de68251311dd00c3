# A write error on standard output is an error; a reader that closes the pipe early is not.
ckpt ls data/train.pt >/dev/full; echo $?
ckpt hash --json data/train.pt >/dev/full; echo $?
ckpt convert -q data/train.pt --to safetensors - 2>err >/dev/full; echo $?
head -n 1 err
ckpt ls data/train.pt | head -n 1
# A second output is one too many, and nothing is written, unless it is the same.
for c in convert 'strip --auto' 'add x.' 'rename -s conv=>c' sanitize salvage; do
    ckpt $c data/train.pt -o a.pt --output=b.pt; echo $?
done
ckpt meta w.safetensors a=b -o a.safetensors -ob.safetensors; echo $?
ckpt convert -q data/train.pt -o same.pt -osame.pt && rm same.pt
(ulimit -f 8; ckpt convert data/train.pt a.pt; echo $?)
ls
