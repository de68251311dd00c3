# A prefix without its dot is a component; one that no key has, and a rule that matches none, name those there are.
ckpt strip -n module data/train.pt; echo $?
ckpt strip -n modul. data/train.pt; echo $?
ckpt strip -n modul data/train.pt; echo $?
ckpt strip -n --anywhere bn1 data/train.pt; echo $?
ckpt strip -n --anywhere bm. data/train.pt; echo $?
ckpt rename -n -s 'modul\.=>' data/train.pt; echo $?
ckpt strip -q --auto data/train.pt -o s.pt
ckpt strip -n module. s.pt; echo $?
# a prefix may end elsewhere than at a dot
ckpt strip -n bn s.pt; echo $?
