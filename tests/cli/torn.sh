# torn.sh - files that an edit in place left half changed, and their undo journals, laid out by hand as
# lib/io/journal_bytes.c has it. Sourced.
le() { # le N BYTES - little-endian
    number=$1 bytes=$2
    while [ "$bytes" -gt 0 ]; do
        printf "\\$(printf %o $((number % 256)))"
        number=$((number / 256)) bytes=$((bytes - 1))
    done
}
num() { od -An -j "$2" -N "$3" -t "u$3" "$1" | tr -d ' '; }           # num FILE AT BYTES
cut_out() { tail -c +$(($2 + 1)) "$1" | head -c "$3"; }               # cut_out FILE AT N
crc() { gzip -c | tail -c 8 | od -An -N 4 -t u4 | tr -d ' '; }
put() { dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; }         # put FILE AT
# sums OLD NEW AT N - prints a checksum of each sector of the new bytes; bit 31: the old sector differs
sums()
{
    from=$3 end=$(($3 + $4))
    while [ "$from" -lt $end ]; do
        to=$(((from / 512 + 1) * 512))
        [ $to -le $end ] || to=$end
        [ "$from" -ge "$old_size" ] || [ $to -le "$old_size" ] || to=$old_size
        cut_out "$2" "$from" $((to - from)) >.sector
        cut_out "$1" "$from" $((to - from)) >.sector-was
        [ -s .sector-was ] || head -c $((to - from)) /dev/zero >.sector-was
        sum=$(($(crc <.sector) & 0x7FFFFFFF))
        cmp -s .sector .sector-was || sum=$((sum | 0x80000000))
        le $sum 4
        from=$to
    done
    rm -f .sector .sector-was
}
# journal FILE OLD NEW AT:N… - the journal of FILE for an edit that made NEW of OLD, which changed those ranges
journal()
{
    file=$1 old=$2 new=$3
    shift 3
    old_size=$(wc -c <"$old")
    for range; do
        at=${range%:*} n=${range#*:}
        left=$((old_size - at))
        [ $left -lt "$n" ] || left=$n
        le "$at" 8; le "$n" 8
        cut_out "$old" "$at" $left
        sums "$old" "$new" "$at" "$n"
    done >.pieces
    { printf CKPTUNDO; le 1 4; le $# 4; le "$(stat -c %i "$file")" 8; le "$old_size" 8; le "$(wc -c <"$new")" 8
      le $(($(wc -c <.pieces) + 52)) 8; cat .pieces; } >.body
    { cat .body; le "$(crc <.body)" 4; } >"$file.ckpt-undo"
    chmod 600 "$file.ckpt-undo"
    rm -f .pieces .body
}
# ranges OLD NEW - prints the ranges that an edit in place changed: the header of safetensors; in a torch zip, whose
# first record is the pickle, the pickle, its descriptor and its CRC in the directory or, if the file grew, the name of
# the pickle's record and everything from the directory on.
ranges()
{
    if [ "$(head -c 2 "$1")" != PK ]; then
        echo "8:$(num "$1" 0 8)"
        return
    fi
    old_size=$(wc -c <"$1") new_size=$(wc -c <"$2")
    name=$(num "$1" 26 2)
    directory=$(num "$1" $((old_size - 6)) 4)
    data=$((30 + name + $(num "$1" 28 2))) n=$(num "$1" $((directory + 24)) 4)
    if [ "$old_size" = "$new_size" ]; then
        echo "$data:$n $((data + n + 4)):4 $((directory + 16)):4"
    else
        echo "30:$name $directory:$((new_size - directory))"
    fi
}
# torn FILE [EDIT…] - makes FILE what `ckpt EDIT… -i` leaves if it is killed half way: only the first sector is new
torn()
{
    file=$1
    shift
    cp "$file" .old
    cp "$file" .new
    chmod u+w .new
    [ $# -gt 0 ] || set -- strip --auto
    ckpt "$@" -i -q .new
    where=$(ranges .old .new)
    cut_out .new 0 512 | put "$file" 0
    # shellcheck disable=SC2086
    journal "$file" .old .new $where
    rm -f .old .new
}
