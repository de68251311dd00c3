# stat --root reads only what is below the container that it names; auto stands for the weights.
ckpt stat --root state_dict --tsv data/train.pt | cut -f 1 | head -n 3
ckpt stat --root auto --tsv data/train.pt | wc -l
ckpt stat --root nowhere data/train.pt; echo $?
ckpt stat --root optimizer -g '*fc*' data/train.pt; echo $?
