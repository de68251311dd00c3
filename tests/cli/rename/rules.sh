# -s applies regular expressions in order, with groups; wrong or useless rules are refused.
ckpt rename -s "^module\." -o a.pt data/train.pt; echo $?
ckpt rename -s "^module\.=>" -s "bn([0-9])=>norm\1" -s "conv=>c" data/train.pt -o a.pt
ckpt ls -g "state_dict.*" a.pt
ckpt rename -s "(=>x" data/train.pt -o b.pt; echo $?
ckpt rename -s "nothing=>x" data/train.pt -o b.pt; echo $?
ckpt rename -s ".*=>x" data/train.pt -o c.pt; echo $?
ckpt rename data/train.pt -o d.pt; echo $?
# The report does not print a number alone as a part of a name, but with the part before it: "mlp.0.".
ckpt rename -q -s '^module\.=>blocks.0.mlp.' -s 'bn1=>0' -s 'bn2=>2' data/train.pt -o n.pt
ckpt rename -n -s 'mlp\.0\.=>mlp.fc1.' -s 'mlp\.2=>mlp.fc2' n.pt
# $1 is text
ckpt rename -n -s '^(fc)=>x$1' corpus/torch/t26/state_dict.pt
ckpt rename -n -s '^fc=>x$1' corpus/torch/t26/state_dict.pt
