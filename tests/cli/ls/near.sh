# If a glob matches nothing, the error suggests near names; -i ignores case; --order=size lists the largest first.
for glob in fc fc.weight '*FC*' 'layre1*' bn 'con1v*' zzz; do
    ckpt ls -g "$glob" data/train.pt; echo $?
done
ckpt ls -g '*fc*' -g '!*' data/train.pt; echo $?
ckpt ls -i -g '*FC.B*' -g '!OPT*' data/train.pt; echo $?
ckpt stat -g head data/train.pt; echo $?
ckpt stat -i --tsv -g '*FC.B*' data/train.pt | cut -f1,2
ckpt ls --order=size data/train.pt | head -n 3
ckpt ls --order size --tsv data/train.pt | tail -n 1
