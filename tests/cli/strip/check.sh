# --check writes nothing and exits 1 if strip would change names, else 0; with --strict a prefix that no name has is an error.
ckpt strip --check --auto data/train.pt; echo $?
ckpt strip --check -q nope. data/train.pt; echo $?
ckpt strip --strict nope. data/train.pt -o a.pt; echo $?
ckpt strip -n --auto data/train.pt -o a.pt; echo $?
ls *.pt 2>/dev/null
# Of several files, only those that would change are reported, with their names.
ckpt strip -q --auto data/train.pt -o good.pt
ckpt strip --check --auto good.pt data/train.pt; echo $?
