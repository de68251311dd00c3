# meta keeps the types of GGUF pairs, refuses values that do not fit them, and edits in place if the data can stay.
cp corpus/gguf/metadata.gguf m.gguf
ckpt meta -q -o o.gguf m.gguf k.u8=7 k.bool=false k.f32=2.5 general.name=other 'a.i32=[4, 5]' -u k.str \
    new.text=x new.number:u64=5 'new.list:[bool]=[true]' 2>/dev/null
ckpt meta o.gguf 2>/dev/null | grep -e k.u8 -e k.bool -e k.f32 -e general.name -e a.i32 -e k.str -e new
ckpt diff -q m.gguf o.gguf 2>/dev/null; echo $?
for e in k.u8=256 k.i8=-129 k.u16=-1 k.bool=yes k.f64=much a.i32=4 'a.i32=[1,"2"]' 'a.i32=[1' a.nested=[] x:u8=-1 \
    general.alignment=24 new.number:u8=; do
    ckpt meta -f -o p.gguf m.gguf "$e" 2>&1 | grep -v refuse
done
ckpt meta -q -i m.gguf k.u32=1 'a.bool=[false, true]' 2>/dev/null
ckpt meta m.gguf 2>/dev/null | grep -e k.u32 -e a.bool
ckpt verify -q m.gguf 2>/dev/null; echo $?
ckpt meta -i m.gguf "long=$(printf '%0999d' 0)" 2>&1 | grep -v refuse
ckpt meta -i m.gguf general.alignment=128 2>&1 | grep -v refuse
ckpt meta -q -o a.gguf corpus/gguf/align64.gguf general.alignment=1024; ckpt diff -q a.gguf corpus/gguf/align64.gguf; echo $?
ckpt ls --json a.gguf | grep -o '"file_offset":[0-9]*'
ckpt meta -i corpus/gguf/bigendian.gguf k=v 2>&1 | grep -v refuse
cp corpus/gguf/split_size-*.gguf .
ckpt meta -i -q split_size-00001-of-00003.gguf general.architecture=abcd; ckpt meta split_size-00001-of-00003.gguf
ckpt diff -q split_size-00001-of-00003.gguf corpus/gguf/split_size-00001-of-00003.gguf; echo $?
ckpt meta --json --check m.gguf k.u8=9 2>/dev/null | cut -c1-140; echo $?
# Arrays above 4 KiB are abbreviated to the first elements that end within the first 4 KiB.
long=$(printf '%03000d' 0)
ckpt meta -q -o l.gguf m.gguf "one.list:[str]=[\"$long\", \"$long\", \"c\"]" "no.list:[str]=[\"$long$long\", \"b\"]" 2>/dev/null
ckpt meta l.gguf 2>/dev/null | grep list= | tr -s 0
