# Every dtype that torch saves, exactly.
for f in corpus/torch/t215/dtype_*[!y].pt; do
    ckpt stat --tsv "$f"
done
