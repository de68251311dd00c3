# Two archives one after the other: the locator of the second names the end of the first, other readers go by what
# stands in front of it.
cat data/train.pt data/train.pt >two.pt
ckpt verify two.pt
ckpt ls two.pt
