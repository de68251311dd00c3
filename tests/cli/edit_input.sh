# edit_input.sh - small safetensors files of bytes that are letters, and their bytes as letters again. Sourced.
header= data=
# add_tensor NAME SHAPE LETTERS - adds a tensor of uint8 to the file that write_tensors writes
add_tensor()
{
    header="$header${header:+,}\"$1\":{\"dtype\":\"U8\",\"shape\":[$2],"
    header="$header\"data_offsets\":[${#data},$((${#data} + ${#3}))]}"
    data=$data$3
}
# write_tensors FILE - writes the tensors that were added, and forgets them
write_tensors()
{
    header="{$header}"
    while [ $((${#header} % 8)) -ne 0 ]; do header="$header "; done
    printf "\\$(printf %o $((${#header} % 256)))\\$(printf %o $((${#header} / 256)))\\0\\0\\0\\0\\0\\0%s%s" "$header" \
        "$data" >"$1"
    header= data=
}
# letters FILE - prints each tensor: its name, shape and letters
letters()
{
    ckpt ls --json "$1" | tr '{' '\n' |
        sed -n 's/.*"name":"\([^"]*\)".*"shape":\(\[[0-9,]*\]\).*"file_offset":\([0-9]*\).*/\1 \2 \3/p' |
        while read -r name shape offset; do
            count=$(echo "$shape" | sed 's/\[\]/[1]/; s/[][]//g; s/,/ \\* /g')
            printf '%s %s %s\n' "$name" "$shape" "$(tail -c +$((offset + 1)) "$1" | head -c "$(eval "expr $count")")"
        done
}
# make_layers - writes layers.safetensors
make_layers()
{
    add_tensor h.0.q 2,3 abcdef
    add_tensor h.0.k 2,3 ABCDEF
    add_tensor h.1.q 2,3 ghijkl
    add_tensor h.1.k 2,3 GHIJKL
    for e in 0 1 2 3 4 5 6 7 8 9 10; do add_tensor "e.$e.w" 2 "$(printf "\\$(printf %o $((97 + e)))x")"; done
    add_tensor cube 2,2,2 01234567
    add_tensor s '' z
    write_tensors layers.safetensors
}
