# interrupt_edit.sh - makes files that an edit in place left half changed, and undo journals by the layout in
# lib/io/journal_bytes.c. Sourced.
sector_size=512

# print_le NUMBER SIZE - prints NUMBER as SIZE bytes, little-endian
print_le()
{
    number=$1 bytes_left=$2
    while [ "$bytes_left" -gt 0 ]; do
        printf "\\$(printf %o $((number % 256)))"
        number=$((number / 256)) bytes_left=$((bytes_left - 1))
    done
}
# number_at FILE OFFSET SIZE - prints the little-endian number of SIZE bytes
number_at() { od -An -j "$2" -N "$3" -t "u$3" "$1" | tr -d ' '; }
# bytes_at FILE OFFSET SIZE - prints SIZE bytes of FILE
bytes_at() { tail -c +$(($2 + 1)) "$1" | head -c "$3"; }
# overwrite FILE OFFSET - writes standard input over the bytes of FILE
overwrite() { dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; }
# crc32_of - prints the CRC-32 of standard input: gzip ends with it and with the size, of 4 bytes each
crc32_of() { gzip -c | tail -c 8 | od -An -N 4 -t u4 | tr -d ' '; }

# print_segment_crcs OLD NEW OFFSET SIZE - prints the 4 bytes that a piece has for each of its segments: bits 0 to 30
# of the CRC-32 of the new bytes, and bit 31, which is set if the segment changes. A segment is a sector; if OLD, of
# $old_size bytes, ends within a sector, the parts before and after that end are segments.
print_segment_crcs()
{
    begin=$3 piece_end=$(($3 + $4))
    while [ "$begin" -lt $piece_end ]; do
        end=$(((begin / sector_size + 1) * sector_size))
        [ $end -le $piece_end ] || end=$piece_end
        [ "$begin" -ge "$old_size" ] || [ $end -le "$old_size" ] || end=$old_size
        bytes_at "$2" "$begin" $((end - begin)) >.new-segment
        bytes_at "$1" "$begin" $((end - begin)) >.old-segment
        [ -s .old-segment ] || head -c $((end - begin)) /dev/zero >.old-segment
        crc=$(($(crc32_of <.new-segment) & 0x7FFFFFFF))
        cmp -s .new-segment .old-segment || crc=$((crc | 0x80000000)) # bit 31: the segment changes
        print_le $crc 4
        begin=$end
    done
    rm -f .new-segment .old-segment
}
# write_journal FILE NPIECES OLD_SIZE NEW_SIZE <PIECES - writes the journal of FILE; standard input is its NPIECES
# pieces
write_journal()
{
    cat >.pieces
    header_size=48 crc_size=4
    {
        printf CKPTUNDO
        print_le 1 4 # the version
        print_le "$2" 4
        print_le "$(stat -c %i "$1")" 8
        print_le "$3" 8
        print_le "$4" 8
        print_le $((header_size + $(wc -c <.pieces) + crc_size)) 8
        cat .pieces
    } >.before-crc
    { cat .before-crc; print_le "$(crc32_of <.before-crc)" 4; } >"$1.ckpt-undo"
    chmod 600 "$1.ckpt-undo"
    rm -f .pieces .before-crc
}
# make_journal FILE OLD NEW OFFSET:SIZE… - writes the journal of FILE for an edit that turned OLD into NEW by
# changing these ranges
make_journal()
{
    file=$1 old=$2 new=$3
    shift 3
    old_size=$(wc -c <"$old")
    for range; do
        offset=${range%:*} range_size=${range#*:}
        old_bytes=$((old_size - offset))
        [ $old_bytes -lt "$range_size" ] || old_bytes=$range_size
        print_le "$offset" 8
        print_le "$range_size" 8
        bytes_at "$old" "$offset" $old_bytes
        print_segment_crcs "$old" "$new" "$offset" "$range_size"
    done | write_journal "$file" $# "$old_size" "$(wc -c <"$new")"
}
# changed_ranges OLD NEW - prints the ranges that an edit in place changed. In safetensors this is the header.
# In a torch zip the pickle is the first record. If the file kept its size, the pickle changed, and its CRC in the data
# descriptor and in the central directory. If the file grew, the name in the local header changed, and all bytes from
# the central directory on.
changed_ranges()
{
    if [ "$(head -c 2 "$1")" != PK ]; then
        echo "8:$(number_at "$1" 0 8)"
        return
    fi
    old_size=$(wc -c <"$1") new_size=$(wc -c <"$2")
    local_header_size=30
    name_length=$(number_at "$1" 26 2) extra_length=$(number_at "$1" 28 2)
    pickle=$((local_header_size + name_length + extra_length))
    directory=$(number_at "$1" $((old_size - 6)) 4) # as the end record has it
    pickle_size=$(number_at "$1" $((directory + 24)) 4)
    if [ "$old_size" = "$new_size" ]; then
        descriptor_crc=$((pickle + pickle_size + 4)) # after the signature
        echo "$pickle:$pickle_size $descriptor_crc:4 $((directory + 16)):4"
    else
        echo "$local_header_size:$name_length $directory:$((new_size - directory))"
    fi
}
# interrupt_edit FILE [EDIT…] - makes FILE what `ckpt EDIT… -i` leaves if it is killed after the first sector;
# without EDIT: strip --auto
interrupt_edit()
{
    edited=$1
    shift
    cp "$edited" .old
    cp "$edited" .new
    chmod u+w .new
    [ $# -gt 0 ] || set -- strip --auto
    ckpt "$@" -i -q .new
    ranges=$(changed_ranges .old .new)
    bytes_at .new 0 $sector_size | overwrite "$edited" 0
    # shellcheck disable=SC2086
    make_journal "$edited" .old .new $ranges
    rm -f .old .new
}
