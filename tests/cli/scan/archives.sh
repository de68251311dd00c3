# scan finds pickles in compressed files, tar, nested archives and object arrays; bombs and depth are limited.
printf 'cos\nsystem\n(S"id"\ntR.' >evil.pkl
tar --format=ustar --owner=0 --group=0 --numeric-owner --mtime=@0 -cf a.tar evil.pkl
gzip -nc a.tar >a.tar.gz
ln -s evil.pkl link
tar --format=ustar --owner=0 --group=0 --numeric-owner --mtime=@0 -cf link.tar link
cp a.tar.gz nested; for i in 1 2 3 4; do gzip -nc nested >n; mv n nested; done
head -c 100000000 /dev/zero | gzip -9nc >bomb.gz
{ gzip -nc data/train.pt; echo x; } >behind.gz
{ printf '\223NUMPY\001\000\100\000'; printf "%-63s\n" "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"; cat evil.pkl; } >o.npy
{ printf '\223NUMPY\001\000\100\000'; printf "%-63s\n" "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"; printf 'abcd'; } >f.npy
npy() { printf '\223NUMPY\001\000\200\000'; printf '%-127s\n' "$1"; }
{ npy "{'descr': '\\x4f', 'fortran_order': False, 'shape': (1,), }"; cat evil.pkl; } >escaped.npy
{ npy "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'descr': '|O'}"; cat evil.pkl; } >twice.npy
{ npy "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"; printf abcd; cat evil.pkl; } >more.npy
{ npy "{'descr': '<U4', 'fortran_order': False, 'shape': (2, 3), }"; printf abcd; } >less.npy
{ npy "{'descr': [('a', '<f4'), ('b', '<f4')], 'fortran_order': False, 'shape': (1,), }"; printf abcdefgh; } >two.npy
for f in *.npy a.tar a.tar.gz link.tar nested bomb.gz behind.gz corpus/torch/legexp/t_tar.pt; do
    ckpt scan $f >out
    echo $?
    sed 's/, [0-9.]* [KM]*i*B not accounted for//' out
done
