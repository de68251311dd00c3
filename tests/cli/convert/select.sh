# --keep and --drop select tensors; a glob that matches nothing is an error.
ckpt convert --root state_dict --keep "*.fc.*" --keep "*bn1*" --drop "*num_b*" data/train.pt a.pt
ckpt ls a.pt
ckpt convert --keep "nothing*" data/train.pt b.pt; echo $?
ckpt convert --root nowhere data/train.pt b.pt; echo $?
