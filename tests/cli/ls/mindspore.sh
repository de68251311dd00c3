# MindSpore's .ckpt: parameters in one value or several, texts, a checksum of the file.
for f in types sliced crc; do ckpt hash corpus/mindspore/$f.ckpt | sed '$d' | cksum; done
ckpt ls --values corpus/mindspore/sliced.ckpt
ckpt info corpus/mindspore/crc.ckpt
ckpt verify corpus/mindspore/crc.ckpt
ckpt convert -q corpus/mindspore/sliced.ckpt -o m.safetensors && ckpt diff corpus/mindspore/types.ckpt m.safetensors
# one byte of the elements changed: the checksum of the file differs
sed 's/Float32/Float64/' corpus/mindspore/crc.ckpt >flip.ckpt
ckpt verify flip.ckpt
# cut off
head -c 300 corpus/mindspore/types.ckpt >cut.ckpt
ckpt ls cut.ckpt
ckpt verify cut.ckpt
ckpt salvage -q cut.ckpt -o cut.pt; echo $?; ckpt ls cut.pt
# value HEX - prints one value of the message: tag w, and a tensor of the bytes HEX
value() { printf '%s%s' "0a$(printf %02x $((5 + ${#1} / 2)))0a017712$(printf %02x $((${#1} / 2)))" "$1" | sed 's/../\\x&/g'; }
show() { echo "# $1"; printf "$(value "$2" | sed 's/\\x\(..\)/\1 /g' | for_octal)" >w.ckpt; ckpt ls w.ckpt; }
for_octal() { for h in $(cat); do printf '\\%03o' $((0x$h)); done; }
empty= float=1207466c6f61743332
show 'one float' 0801${float}1a0400000000
show 'fewer bytes than dims' 0802${float}1a0400000000
show 'more bytes than dims' 0801${float}1a080000000000000000
show 'no content' 0801$float
show 'packed dims' 0a020101${float}1a0400000000
show 'a negative size' 08ffffffffffffffffff01${float}1a0400000000
show 'an unknown type' 080112064170706c65731a0400000000
show 'a type that begins as a known one' 08011206496e7431362a1a0400000000
show 'a text of 3 bytes' 08001203737472${empty}1a03610000
show 'a character that does not exist' 080012037374721a04ffffffff
show 'content after the end' 0801${float}1a7f00000000
{ cat corpus/mindspore/types.ckpt; printf '\022\0'; } >other.ckpt; ckpt ls other.ckpt
{ cat corpus/mindspore/types.ckpt corpus/mindspore/types.ckpt; } >twice.ckpt; ckpt ls twice.ckpt
printf '\n\005\n\001m\032\0' | cat corpus/mindspore/types.ckpt - >map.ckpt; ckpt ls map.ckpt
