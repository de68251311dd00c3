# stat prints a line for each tensor, without numbers for one that has none, and the same numbers for ties.
ckpt stat -g '*conv*' -g '*batches*' data/train.pt
for f in meta empty sparse_coo quant_per_channel tied expanded numpy; do
    ckpt stat corpus/torch/t215/$f.pt
done
ckpt stat -g nothing data/train.pt; echo $?
