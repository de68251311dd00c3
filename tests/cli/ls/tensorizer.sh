# tensorizer: dtypes that numpy lacks, nested names, a tensor without data, the CRC-32 of each tensor.
# not ASCII: changed bytes that this script prints
d=corpus/tensorizer
for f in types module nested; do ckpt hash $d/$f.tensors | sed '$d' | cksum; done
ckpt ls $d/types.tensors; ckpt ls $d/nested.tensors; ckpt ls $d/meta.tensors; ckpt info $d/module.tensors
ckpt verify $d/types.tensors
ckpt convert -q $d/module.tensors -o m.safetensors && ckpt diff $d/module.tensors m.safetensors
# put FROM OFFSET BYTES - writes a copy of FROM to t.tensors, with other bytes at OFFSET
put() { cp $d/$1.tensors t.tensors; chmod u+w t.tensors; printf "$3" | dd of=t.tensors bs=1 seek=$2 conv=notrunc 2>/dev/null; }
echo '# one byte of a value'
put types 2342 Z; ckpt ls t.tensors | tail -n 1; ckpt verify t.tensors; ckpt hash t.tensors
ckpt salvage -q t.tensors -o s.pt; echo $?; ckpt ls s.pt | tail -n 3; ckpt hash --ignore-crc t.tensors | cksum
echo '# cut off'
head -c 2000 $d/types.tensors >t.tensors; ckpt ls t.tensors; ckpt verify t.tensors; ckpt salvage -qf t.tensors -o s.pt; ckpt ls s.pt | tail -n 1
head -c 100 $d/types.tensors >t.tensors; ckpt ls t.tensors; head -c 60 $d/types.tensors >t.tensors; ckpt ls t.tensors
echo '# what is refused'
attempt() { put "$@"; echo "# $*"; ckpt ls t.tensors; }
attempt types 5 '\006'; attempt types 5 '\003'; attempt types 9 '\001'; attempt types 9 '\004'; attempt types 30 '\001'
attempt types 57 '\177'; attempt types 65 '\001'; attempt types 72 '\001'
attempt types 75 'b'
attempt types 86 'q'
attempt types 90 '\003'
attempt types 98 '\377'
attempt types 106 '\377'
attempt types 114 '\031'
attempt nested 76 '{'
attempt nested 77 '['
# The number of tensors is that of the entries.
{ head -c 57 $d/types.tensors; printf '\r'; tail -c +59 $d/types.tensors; } >thirteen.tensors; ckpt ls thirteen.tensors
