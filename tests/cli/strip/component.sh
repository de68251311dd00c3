# A prefix without its dot is completed if keys have the prefix with the dot. If no key matches a prefix or a rule, a
# notice lists the prefixes that keys have.
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
