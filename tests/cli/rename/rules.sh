# Regular expressions in order, groups, several matches.
ckpt rename -s "^module\." -o a.pt data/train.pt; echo $?
ckpt rename -s "^module\.=>" -s "bn([0-9])=>norm\1" -s "conv=>c" data/train.pt -o a.pt
ckpt ls -g "state_dict.*" a.pt
ckpt rename -s "(=>x" data/train.pt -o b.pt; echo $?
ckpt rename -s "nothing=>x" data/train.pt -o b.pt; echo $?
ckpt rename -s ".*=>x" data/train.pt -o c.pt; echo $?
ckpt rename data/train.pt -o d.pt; echo $?
