# --check: 1 would change, 0 would not; writes nothing. --strict: nothing to change is 2.
ckpt strip --check --auto data/train.pt; echo $?
ckpt strip --check -q nope. data/train.pt; echo $?
ckpt strip --strict nope. data/train.pt -o a.pt; echo $?
ckpt strip -n --auto data/train.pt -o a.pt; echo $?
ls *.pt 2>/dev/null
