# strip --auto removes only prefixes that are certain and reports them; a second run copies the file and exits 0.
ckpt strip --auto data/train.pt -o a.pt
ckpt ls -g "state_dict*fc*" a.pt
ckpt strip --auto a.pt -o b.pt; echo $?
cmp a.pt b.pt
ckpt diff --root state_dict --ignore-prefix module. data/train.pt b.pt
