# Two archives one after the other are refused: the offset in the last zip64 locator leads to the zip64 end record of
# the first archive, but some readers use the zip64 end record directly before the locator.
cat data/train.pt data/train.pt >two.pt
ckpt verify two.pt
ckpt ls two.pt
