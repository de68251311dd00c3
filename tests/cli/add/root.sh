# Only below a root.
ckpt add enc. --root state_dict data/train.pt -o a.pt
ckpt ls -g "*fc*" a.pt
