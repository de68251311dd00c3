# Commands that write, hash or check each element of a view refuse a file if its views that are larger than their
# storages exceed --max-expanded together; ls and show still work.
for limit in 63 64 16GB; do
    for c in "hash" "stat --tsv" "convert -nf -o x.safetensors" "convert -fo x.safetensors" "strip --allow-none w. -fo x.safetensors" \
        verify "verify --finite" "verify -f --write-manifest x.txt" "doctor --finite" \
        "salvage -fo x.safetensors" "sanitize -fo x.safetensors" "sanitize -fo x.pt"; do
        ckpt $c --max-expanded $limit corpus/torch/t215/expanded.pt >out 2>err; echo "$limit $c: $?"
        grep -v '^hint' err | cut -d: -f 2-
    done
done
ckpt hash --max-expanded 1 corpus/torch/t215/expanded.pt
ckpt diff --max-expanded 1 corpus/torch/t215/expanded.pt corpus/torch/t215/expanded.pt; echo $?
ckpt ls --text --max-expanded 1 corpus/torch/t215/expanded.pt
ckpt ls corpus/torch/t215/expanded.pt
ckpt show corpus/torch/t215/expanded.pt y
# A .pt holds the storage, not the elements of its view, so that the limit does not matter.
ckpt strip --allow-none w. --max-expanded 1 corpus/torch/t215/expanded.pt -fo x.pt
