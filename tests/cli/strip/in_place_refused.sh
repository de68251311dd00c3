# What cannot be edited in place is named and stays unchanged.
cp data/train.pt a.pt
ckpt strip -i --auto a.pt -o b.pt; echo $?
ckpt strip -i --auto --root state_dict a.pt; echo $?
ckpt strip -i --auto --to safetensors a.pt; echo $?
ckpt strip -i --auto - <a.pt; echo $?
ckpt strip --auto --follow-links a.pt -o b.pt; echo $?
for f in whole_model.pt state_dict_legacy.pt torchscript_script.pt; do
    cp corpus/torch/t26/$f f
    ckpt add p. -i f; echo $?
    cmp corpus/torch/t26/$f f
done
# A symbolic link is only followed with --follow-links.
ln -s a.pt link.pt
ckpt strip -i --auto link.pt 2>&1 | sed "s|$PWD/||"
ln a.pt hard.pt
ckpt strip -i --auto a.pt; echo $?
ckpt strip -i --auto --check hard.pt -q; echo $?
ckpt strip -i --auto --dry-run --follow-links link.pt; echo $?
cmp data/train.pt a.pt
ckpt strip -i --auto --follow-links link.pt; echo $?
ckpt strip --check --auto hard.pt; echo $?
# With --strict it is an error if nothing would change.
ckpt strip -i --auto --strict --follow-links a.pt; echo $?
# A damaged journal, or a file that is no journal, is not removed, and the checkpoint stays unchanged.
cp data/train.pt c.pt
printf 'CKPTUNDO' >c.pt.ckpt-undo
ckpt ls -q c.pt; echo $?
ckpt strip -i -q --auto c.pt; echo $?
ckpt strip -i --check -q --auto c.pt; echo $?
echo 'my notes' >c.pt.ckpt-undo
ckpt ls -q c.pt >/dev/null; echo $?
ckpt add m. -i c.pt; echo $?
ckpt add m. -i --dry-run c.pt; echo $?
cmp data/train.pt c.pt
cat c.pt.ckpt-undo
