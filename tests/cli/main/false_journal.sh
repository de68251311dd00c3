# An undo journal that no edit in place left is reported; no command restores anything from it, and no hint suggests one
# that would.
. "$TESTS/torn.sh"
# try WHAT FILE - checks that ls and strip leave FILE equal to .good, and keep its journal
try()
{
    echo "== $1"
    ckpt ls -q "$2" >/dev/null; echo "ls $?"
    ckpt strip -iq --auto "$2"; echo "strip $?"
    cmp .good "$2" || cat .good >"$2"
    [ -e "$2.ckpt-undo" ] || [ -L "$2.ckpt-undo" ] || echo 'the journal is gone'
    rm -f "$2.ckpt-undo" .new .old .pieces .body
}
cp data/train.pt w.pt
cp w.pt .good
size=$(wc -c <w.pt)
# raw PIECES OLD-SIZE NEW-SIZE <bytes - writes a journal of w.pt with these pieces
raw()
{
    cat >.pieces
    { printf CKPTUNDO; le 1 4; le "$1" 4; le "$(stat -c %i w.pt)" 8; le "$2" 8; le "$3" 8
      le $(($(wc -c <.pieces) + 52)) 8; cat .pieces; } >.body
    { cat .body; le "$(crc <.body)" 4; } >w.pt.ckpt-undo
    chmod 600 w.pt.ckpt-undo
}
raw 0 0 $((size + 1)) </dev/null
try 'no pieces: all is cut off' w.pt
{ le 0 8; le 0 8; } | raw 1 0 $((size + 1))
try 'an empty piece' w.pt
{ le 50 8; le 1 8; printf A; le 0 4; } | raw 1 100 "$size"
try 'a size that no piece accounts for' w.pt
{ le 50 8; le 2 8; printf AB; le 1 4; le 51 8; le 2 8; printf CD; le 1 4; } | raw 2 "$size" "$size"
try 'pieces that overlap' w.pt
# longer FILE AT BYTES - writes a journal that would restore BYTES at AT, of an edit that also makes FILE longer
longer()
{
    cp "$1" .old
    printf %s "$3" | put .old "$2"
    cp "$1" .new
    printf x >>.new
    journal "$1" .old .new "$2:${#3}" "$(wc -c <"$1"):1"
}
longer w.pt 20000 EVIL
try 'bytes of a tensor' w.pt
longer w.pt 70 EVIL
try 'some bytes of the pickle' w.pt
longer w.pt 0 PKPK
try 'the first local header' w.pt
cp w.pt .new
head -c $((size - 100)) w.pt >.old
journal w.pt .old .new "$((size - 200)):200"
printf x | put .new $((size - 1))
journal w.pt .old .new "$((size - 200)):200"
try 'the end is cut off' w.pt
# half OLD FILE RANGE… - writes a journal of FILE that would restore OLD. By the journal, FILE is half changed: its first
# sector that differs from OLD has the new bytes, and the last one has not.
half()
{
    cp "$2" .new
    last=${3##* }
    printf '\377\376' | put .new $((${last%:*} + ${last#*:} - 2))
    # shellcheck disable=SC2086
    journal "$2" "$1" .new $3
}
# This journal would replace the pickle of an intact archive by a different one with the same CRC-32.
cp w.pt .was
ckpt strip --auto -iq .was
half .was w.pt "$(ranges .was w.pt)"
try 'another pickle' w.pt
# This journal would undo an edit that was complete.
ckpt add a.prefix.that.is.longer.than.the.room.in.the.old.pickle. -iq w.pt
half .good w.pt "$(ranges .good w.pt)"
cp .good .kept
cat w.pt >.good
try 'an edit that was done' w.pt
# in safetensors a journal may change the header only
ckpt convert -q --root state_dict data/train.pt -o s.safetensors
cp s.safetensors .good
header=$(num s.safetensors 0 8)
# differs AT BYTES RANGE - writes a journal that would restore BYTES at AT
differs()
{
    cp s.safetensors .was
    printf "$2" | put .was "$1"
    half .was s.safetensors "$3"
}
differs 0 '\001\001' "0:$((header + 8))"
try 'safetensors: the length of the header' s.safetensors
differs $((header + 100)) EVIL "$((header + 100)):600"
try 'safetensors: a tensor' s.safetensors
differs 9 EVIL "8:$((header + 600))"
try 'safetensors: the header and a tensor' s.safetensors
sed 's/"shape":\[16,3,3,3\]/"shape":[16,9,3]  /' s.safetensors >.was
cmp -s .was s.safetensors && echo 'no such shape'
half .was s.safetensors "8:$header"
try 'safetensors: another shape' s.safetensors
# A correct journal of a half changed file is not used if others may write to it or know it by a different name.
cp data/train.pt w.pt
torn w.pt
cp w.pt .good
mv w.pt.ckpt-undo .journal
cp .journal w.pt.ckpt-undo
chmod 620 w.pt.ckpt-undo
try 'the group may write to it' w.pt
cp .journal w.pt.ckpt-undo
chmod 602 w.pt.ckpt-undo
try 'others may write to it' w.pt
ln .journal w.pt.ckpt-undo
try 'it has another name' w.pt
ln -s .journal w.pt.ckpt-undo
try 'a symbolic link' w.pt
mkfifo w.pt.ckpt-undo
try 'a pipe' w.pt
# With its mode as before, the journal undoes the edit.
chmod 600 .journal
mv .journal w.pt.ckpt-undo
ckpt strip -iq no.such.prefix. w.pt; echo $?
cmp data/train.pt w.pt
