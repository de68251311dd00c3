# strip --in-place keeps inode, size and tensors; a second run writes nothing and keeps the time of the file.
cp data/train.pt a.pt
ls -i a.pt >was
ckpt strip --auto --in-place a.pt; echo $?
ls -i a.pt | cmp was - && wc -c <a.pt
ckpt ls -g "state_dict*fc*" a.pt
ckpt diff --root state_dict --ignore-prefix module. data/train.pt a.pt
touch -d 2001-01-01 a.pt
ckpt strip -i --auto a.pt; echo $?
find a.pt -newermt 2001-01-02
# For longer names a new pickle is appended, and the old one is kept under a different name, also when
# that is done a second time.
ckpt add a.prefix.that.is.longer.than.the.room.in.the.old.pickle. -i a.pt
ckpt add another.one.that.needs.still.more.room.than.there.was.before.it. -i a.pt
ckpt info a.pt | head -n 2
ckpt strip another.one.that.needs.still.more.room.than.there.was.before.it. -iq a.pt
ckpt strip a.prefix.that.is.longer.than.the.room.in.the.old.pickle. -iq a.pt
ckpt diff --root state_dict --ignore-prefix module. data/train.pt a.pt
# In safetensors the recorded tie is renamed, too.
ckpt add m. corpus/torch/t26/tied.pt -o tied.pt -q
ckpt convert tied.pt -o t.safetensors -q
grep -ao '"__metadata__[^}]*}' t.safetensors
ckpt strip m. -i t.safetensors
grep -ao '"__metadata__[^}]*}' t.safetensors
# In a copy the recorded tie is renamed, too.
ckpt add n. t.safetensors -o u.safetensors -q
grep -ao '"__metadata__[^}]*}' u.safetensors
# A new header of safetensors that is longer than the old one is refused.
ckpt convert data/train.pt --root state_dict -o s.safetensors -q
ckpt strip -i --auto --json s.safetensors
ckpt add much.too.long.for.that.header. -i s.safetensors; echo $?
ls
