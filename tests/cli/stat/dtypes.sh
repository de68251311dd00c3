# stat computes exact numbers for each dtype that torch saves.
for f in corpus/torch/t215/dtype_*[!y].pt; do
    ckpt stat --tsv "$f"
done
