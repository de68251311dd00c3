# stat computes exact numbers for each dtype that torch saves.
for f in corpus/torch/t215/dtype_*[!y].pt; do # not …_legacy.pt
    ckpt stat --tsv "$f"
done
