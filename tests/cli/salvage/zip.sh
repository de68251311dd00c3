# salvage keeps the intact tensors of a cut or damaged torch zip, names the others, and puts None in their places in a list.
f=corpus/torch/t26/state_dict.pt
try() { rm -f o.pt; ckpt salvage "$1" -o o.pt; echo $?; [ -e o.pt ] && ckpt diff $f o.pt; }
flip() { { head -c $1 $f; printf X; tail -c +$(($1 + 2)) $f; } >b.pt; try b.pt; }
try $f
for n in 2400 1700 900 100; do head -c $n $f >c.pt; try c.pt; done
flip 1200
flip 950
flip 3500
flip 200
# in a tuple None replaces the first item, which is lost
g=corpus/torch/t215/tuple_nested.pt
at=$(ckpt ls --json $g | sed 's/.*"name":"t.0"[^}]*"file_offset":\([0-9]*\).*/\1/')
{ head -c $at $g; printf X; tail -c +$((at + 2)) $g; } >d.pt
ckpt salvage d.pt -o e.pt; echo $?
ckpt ls --values e.pt
# a record whose local header is destroyed is found by the next record and by its size in the central directory
for name in data.pkl data/0; do
    at=$(($(LC_ALL=C grep -abo "/$name" $f | head -n 1 | cut -d: -f1) - 40))
    { head -c $at $f; printf 'XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX'; tail -c +$((at + 36)) $f; } >h.pt
    try h.pt
done
# one wrong byte in a local header or in the central directory loses nothing, with or without CRCs
for g in $f corpus/torch/t215/nocrc.pt; do
    size=$(wc -c <$g) n=0 whole=0
    for at in 6 8 26 28 30 $((size - 900)) $((size - 700)) $((size - 480)) $((size - 300)) $((size - 100)) $((size - 20)); do
        { head -c $at $g; printf X; tail -c +$((at + 2)) $g; } >i.pt
        ckpt salvage -qf i.pt -o o.pt && ckpt diff -q $g o.pt && whole=$((whole + 1))
        n=$((n + 1))
    done
    echo "$whole of $n"
done
# deflated records are found without a central directory, too
g=corpus/torch/exp/06_deflate_all.pt
for n in 600 350 310 200; do head -c $n $g >j.pt; ckpt salvage -f j.pt -o k.pt; echo $?; ckpt diff $g k.pt; done
