# An undo journal that does not come from an edit in place is reported. No command restores anything from it, and no
# hint suggests a command that would.
. "$TESTS/interrupt_edit.sh"
# check_unused CASE FILE - checks that ls and strip leave FILE equal to .good, and keep its journal
check_unused()
{
    echo "== $1"
    ckpt ls -q "$2" >/dev/null; echo "ls $?"
    ckpt strip -iq --auto "$2"; echo "strip $?"
    cmp .good "$2" || cat .good >"$2"
    [ -e "$2.ckpt-undo" ] || [ -L "$2.ckpt-undo" ] || echo 'the journal is gone'
    rm -f "$2.ckpt-undo" .new .old
}
cp data/train.pt w.pt
cp w.pt .good
size=$(wc -c <w.pt)
write_journal w.pt 0 0 $((size + 1)) </dev/null
check_unused 'no pieces: all is cut off' w.pt
# print_piece OFFSET OLD-BYTES CRC - prints a piece of one segment
print_piece() { print_le "$1" 8; print_le ${#2} 8; printf %s "$2"; print_le "$3" 4; }
{ print_le 0 8; print_le 0 8; } | write_journal w.pt 1 0 $((size + 1))
check_unused 'an empty piece' w.pt
print_piece 50 A 0 | write_journal w.pt 1 100 "$size"
check_unused 'a size that no piece accounts for' w.pt
{ print_piece 50 AB 1; print_piece 51 CD 1; } | write_journal w.pt 2 "$size" "$size"
check_unused 'pieces that overlap' w.pt
# make_growing_journal FILE OFFSET BYTES - writes a journal that would restore BYTES at OFFSET, as if an edit had
# also made FILE longer
make_growing_journal()
{
    cp "$1" .old
    printf %s "$3" | overwrite .old "$2"
    cp "$1" .new
    printf x >>.new
    make_journal "$1" .old .new "$2:${#3}" "$(wc -c <"$1"):1"
}
make_growing_journal w.pt 20000 EVIL
check_unused 'bytes of a tensor' w.pt
make_growing_journal w.pt 70 EVIL
check_unused 'some bytes of the pickle' w.pt
make_growing_journal w.pt 0 PKPK
check_unused 'the first local header' w.pt
cp w.pt .new
head -c $((size - 100)) w.pt >.old
make_journal w.pt .old .new "$((size - 200)):200"
printf x | overwrite .new $((size - 1))
make_journal w.pt .old .new "$((size - 200)):200"
check_unused 'the end is cut off' w.pt
# make_false_journal OLD FILE RANGES - writes a journal of FILE that would restore OLD. By the journal, FILE is half
# changed: the first sector that differs from OLD has the new bytes, and the last sector does not have them yet.
make_false_journal()
{
    cp "$2" .new
    last=${3##* }
    printf '\377\376' | overwrite .new $((${last%:*} + ${last#*:} - 2))
    # shellcheck disable=SC2086
    make_journal "$2" "$1" .new $3
}
# This journal would replace the pickle of an intact archive by a different one with the same CRC-32.
cp w.pt .was
ckpt strip --auto -iq .was
make_false_journal .was w.pt "$(changed_ranges .was w.pt)"
check_unused 'another pickle' w.pt
# This journal would undo an edit that was complete.
ckpt add a.prefix.that.is.longer.than.the.room.in.the.old.pickle. -iq w.pt
make_false_journal .good w.pt "$(changed_ranges .good w.pt)"
cp .good .kept
cat w.pt >.good
check_unused 'an edit that was complete' w.pt
# in safetensors a journal may change the header only
ckpt convert -q --root state_dict data/train.pt -o s.safetensors
cp s.safetensors .good
header=$(number_at s.safetensors 0 8)
# make_header_journal OFFSET BYTES RANGE - writes a journal of RANGE that would restore BYTES at OFFSET
make_header_journal()
{
    cp s.safetensors .was
    printf "$2" | overwrite .was "$1"
    make_false_journal .was s.safetensors "$3"
}
make_header_journal 0 '\001\001' "0:$((header + 8))"
check_unused 'safetensors: the length of the header' s.safetensors
make_header_journal $((header + 100)) EVIL "$((header + 100)):600"
check_unused 'safetensors: a tensor' s.safetensors
make_header_journal 9 EVIL "8:$((header + 600))"
check_unused 'safetensors: the header and a tensor' s.safetensors
sed 's/"shape":\[16,3,3,3\]/"shape":[16,9,3]  /' s.safetensors >.was
cmp -s .was s.safetensors && echo 'no such shape'
make_false_journal .was s.safetensors "8:$header"
check_unused 'safetensors: another shape' s.safetensors
# A correct journal of a half changed file is not used if others may write to it, or if it has hard links
# or is no regular file.
cp data/train.pt w.pt
interrupt_edit w.pt
cp w.pt .good
mv w.pt.ckpt-undo .journal
cp .journal w.pt.ckpt-undo
chmod 620 w.pt.ckpt-undo
check_unused 'the group may write to it' w.pt
cp .journal w.pt.ckpt-undo
chmod 602 w.pt.ckpt-undo
check_unused 'others may write to it' w.pt
ln .journal w.pt.ckpt-undo
check_unused 'it has another name' w.pt
ln -s .journal w.pt.ckpt-undo
check_unused 'a symbolic link' w.pt
mkfifo w.pt.ckpt-undo
check_unused 'a pipe' w.pt
# With its mode as before, the journal undoes the edit.
chmod 600 .journal
mv .journal w.pt.ckpt-undo
ckpt strip -iq --allow-none no.such.prefix. w.pt; echo $?
cmp data/train.pt w.pt
