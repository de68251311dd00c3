# average_input.sh - small safetensors files of numbers, given by their bits. Sourced.
header= data= size=0
# add NAME DTYPE SHAPE BITS... - adds a tensor to the file that write_file writes. BITS are hexadecimal: 3f800000 is 1
add()
{
    name=$1 dtype=$2 shape=$3 begin=$size
    shift 3
    for bits; do
        bytes=
        while [ -n "$bits" ]; do
            rest=${bits#??}
            bytes="\\$(printf '%03o' "0x${bits%"$rest"}")$bytes" bits=$rest size=$((size + 1))
        done
        data=$data$bytes
    done
    header="$header${header:+,}\"$name\":{\"dtype\":\"$dtype\",\"shape\":[$shape],\"data_offsets\":[$begin,$size]}"
}
# write_file FILE - writes the tensors that were added, and forgets them
write_file()
{
    header="{$header}"
    while [ $((${#header} % 8)) -ne 0 ]; do header="$header "; done
    printf "\\$(printf %o $((${#header} % 256)))\\$(printf %o $((${#header} / 256)))\\0\\0\\0\\0\\0\\0" >"$1"
    printf "%s$data" "$header" >>"$1"
    header= data= size=0
}
one=3f800000 two=40000000 three=40400000 four=40800000 minus_one=bf800000 zero=00000000
