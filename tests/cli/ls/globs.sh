# Each further -g adds rows, and !GLOB removes rows; if none is left, ls exits 1 with a notice.
ckpt ls -g '*.fc.*' -g '*bn1.b*' -g '!optimizer.*' data/train.pt
ckpt ls -g 'nothing*' data/train.pt
