# A file left half changed by an edit in place is refused until that is undone; a new output removes the undo journal.
. "$TESTS/interrupt_edit.sh"
cp data/train.pt w.pt
interrupt_edit w.pt
ckpt ls -q w.pt; echo $?
# --check and --dry-run write nothing, and report what would be done.
cp w.pt torn.pt
cp w.pt.ckpt-undo journal
for how in --check --dry-run; do
    ckpt strip -i --auto $how w.pt; echo $?
    cmp torn.pt w.pt && cmp journal w.pt.ckpt-undo
done
# A journal with one wrong byte is not used, and stays.
printf x | dd of=w.pt.ckpt-undo bs=1 seek=60 conv=notrunc 2>/dev/null
cp w.pt.ckpt-undo wrong
ckpt strip -i --auto -q w.pt; echo $?
ckpt strip -i --auto --check -q w.pt; echo $?
cmp torn.pt w.pt && cmp wrong w.pt.ckpt-undo
cp journal w.pt.ckpt-undo
# With a prefix that no name has, the edit is undone and nothing else happens.
ckpt strip -i --allow-none no.such.prefix. w.pt; echo $?
cmp data/train.pt w.pt; ls *undo 2>/dev/null
# An output of ckpt that replaces the file removes the journal.
interrupt_edit w.pt
ckpt convert data/train.pt --root state_dict -fqo w.pt; echo $?
ls *undo 2>/dev/null
ckpt ls -g '*conv1*' w.pt
# If another program replaced the file, it can be read, but not edited.
interrupt_edit w.pt
cp data/train.pt good.pt
mv good.pt w.pt
ckpt ls -g 'state*conv1*' w.pt; echo $?
ckpt strip -i --auto w.pt; echo $?
# The same, if the program wrote into the file, so that the inode is the same.
interrupt_edit w.pt
ckpt convert data/train.pt --root state_dict -qo good.pt
cat good.pt >w.pt
ckpt ls -q w.pt; echo $?
ckpt strip -i --auto w.pt; echo $?
cmp good.pt w.pt; ls *undo
