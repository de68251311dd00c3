# Commands that write, hash or check views larger than their storages refuse a file beyond --max-expanded; ls and show
# still work.
for f in 63 64 16GB; do
    for c in "hash" "stat --tsv" "convert -nf -o x.safetensors" "convert -fo x.safetensors" "strip w. -fo x.safetensors" \
        verify "verify --finite" "verify -f --write-manifest x.txt" "doctor --finite" \
        "salvage -fo x.safetensors" "sanitize -fo x.safetensors" "sanitize -fo x.pt"; do
        ckpt $c --max-expanded $f corpus/torch/t215/expanded.pt >out 2>err; echo "$f $c: $?"
        grep -v '^hint' err | cut -d: -f 2-
    done
done
ckpt hash --max-expanded 1 corpus/torch/t215/expanded.pt
ckpt diff --max-expanded 1 corpus/torch/t215/expanded.pt corpus/torch/t215/expanded.pt; echo $?
ckpt ls --text --max-expanded 1 corpus/torch/t215/expanded.pt
ckpt ls corpus/torch/t215/expanded.pt
ckpt show corpus/torch/t215/expanded.pt y
# A .pt holds the storage, not the elements of its view, so that the limit does not matter.
ckpt strip w. --max-expanded 1 corpus/torch/t215/expanded.pt -fo x.pt
