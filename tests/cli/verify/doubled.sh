# Two archives one after the other are refused: by the offset in the zip64 locator of the second, the end record is in
# the first archive, but some readers use the record directly before the locator.
cat data/train.pt data/train.pt >two.pt
ckpt verify two.pt
ckpt ls two.pt
