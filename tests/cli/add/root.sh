# add --root adds the prefix only to names below that container.
ckpt add enc. --root state_dict data/train.pt -o a.pt
ckpt ls -g "*fc*" a.pt
