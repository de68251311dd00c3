# In a pipe, ls prints one aligned row for each tensor, in natural order, without a header or totals.
ckpt ls data/train.pt
ckpt ls data/train.pt | wc -l
