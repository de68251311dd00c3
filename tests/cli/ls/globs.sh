# Each further -g adds rows, and !GLOB removes rows; if none is left, that is an error.
ckpt ls -g '*.fc.*' -g '*bn1.b*' -g '!optimizer.*' data/train.pt
ckpt ls -g 'nothing*' data/train.pt
