# Two archives one after the other are refused: the locator of the second names the end of the first, but some readers
# use the record directly before it.
cat data/train.pt data/train.pt >two.pt
ckpt verify two.pt
ckpt ls two.pt
