# A prefix without a dot means a component; if no key has it, or a rule matches none, the error lists those there are.
ckpt strip -n module data/train.pt; echo $?
ckpt strip -n modul. data/train.pt; echo $?
ckpt strip -n modul data/train.pt; echo $?
ckpt strip -n --anywhere bn1 data/train.pt; echo $?
ckpt strip -n --anywhere bm. data/train.pt; echo $?
ckpt rename -n -s 'modul\.=>' data/train.pt; echo $?
ckpt strip -q --auto data/train.pt -o s.pt
ckpt strip -n module. s.pt; echo $?
# a prefix need not end at a dot
ckpt strip -n bn s.pt; echo $?
