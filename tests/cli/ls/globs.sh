# Globs widen, !globs leave out; nothing left is exit 1 and a notice.
ckpt ls -g '*.fc.*' -g '*bn1.b*' -g '!optimizer.*' data/train.pt
ckpt ls -g 'nothing*' data/train.pt
