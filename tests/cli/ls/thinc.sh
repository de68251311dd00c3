# thinc: the parameters of each node, those that were not initialized, models of other libraries.
d=corpus/thinc
for f in chain embed uninit; do ckpt ls $d/$f.bin; ckpt hash $d/$f.bin | cksum; done
ckpt info $d/chain.bin; ckpt verify $d/chain.bin
ckpt convert -q $d/chain.bin -o m.safetensors && ckpt diff $d/chain.bin m.safetensors
head -c 300 $d/chain.bin >cut.bin; ckpt ls cut.bin
# edit SED - lists a copy of chain.bin with its bytes edited by SED
edit() { echo "# $1"; LC_ALL=C sed "$1" $d/chain.bin >e.bin; ckpt ls e.bin; }
edit 's/<f4/<q4/'
edit 's/<f4/>f4/'
edit 's/kind\(.*\)shape/kind\1shapf/'
edit 's/params/paramz/'
edit 's/relu\(.*\)relu/relu\1xelu/'
printf '\204\245nodes\221\202\245index\0\244name\241n\245attrs\221\200\246params\221\200\245shims\221\221\304\1x' >shim.bin
ckpt ls shim.bin
printf '\204\245nodes\221\202\245index\0\244name\241n\245attrs\221\200\246params\220\245shims\220' >few.bin
ckpt ls few.bin
printf '\204\245nodes\221\201\244name\241n\245attrs\221\200\246params\221\201\241W\1\245shims\220' >index.bin
ckpt ls index.bin
printf '\204\245nodes\221\202\245index\0\244name\241n\245attrs\221\200\246params\221\201\241W\1\245shims\220' >number.bin
ckpt ls number.bin
printf '\204\245nodes\300\245attrs\220\246params\220\245shims\220' >nil.bin; ckpt ls nil.bin
