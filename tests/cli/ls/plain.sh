# Piped: one aligned row per tensor, natural order, no header, no totals.
ckpt ls data/train.pt
ckpt ls data/train.pt | wc -l
