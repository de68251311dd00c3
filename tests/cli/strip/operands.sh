# Operands that are wrong (an output, a prefix with --auto), missing or too many: the error explains what is expected.
for c in 'strip --auto' 'strip module.' 'add x.' "rename -s a=>b" salvage sanitize; do
    ckpt $c data/train.pt out.pt; echo $?
done
ckpt strip --auto module. data/train.pt; echo $?
ckpt strip --auto data/train.pt; echo $?
ckpt convert data/train.pt a.pt b.pt; echo $?
ckpt convert data/train.pt a.pt -o b.pt; echo $?
ckpt salvage data/train.pt; echo $?
ckpt diff a b c d e f g h i j; echo $?
ls
# --auto and two files: both are inputs
cp data/train.pt a.pt; cp data/train.pt b.pt
ckpt strip --auto --check -q a.pt b.pt; echo $?
ckpt strip --auto a.pt b.pt -o out.pt
ckpt strip --auto a.pt b.pt
ckpt strip --auto -n -q a.pt b.pt; echo $?
# The suggested command keeps the options.
ckpt strip a.pt
ckpt strip -q a.pt module. -o out.pt
ckpt strip -q --auto a.pt out.pt
