# torn.sh - makes a file that was half changed by an edit in place, and its undo journal, by hand: two pieces of a byte
# each, "PK" that was to become "XY".
le() { # le N BYTES - little-endian
    n=$1 i=$2
    while [ "$i" -gt 0 ]; do
        printf "\\$(printf %o $((n % 256)))"
        n=$((n / 256)) i=$((i - 1))
    done
}
torn() { # torn FILE, which begins "PK"
    printf X | dd of="$1" bs=1 conv=notrunc 2>/dev/null
    set -- "$1" "$(stat -c %i "$1")" "$(wc -c <"$1")"
    { printf CKPTUNDO; le 1 4; le 2 4; le "$2" 8; le "$3" 8; le "$3" 8; le 94 8
      le 0 8; le 1 8; printf 'P\113\066\262\267'; le 1 8; le 1 8; printf 'K\335\006\265\300'; } >body
    { cat body; gzip -c body | tail -c 8 | head -c 4; } >"$1.ckpt-undo"
    rm body
}
