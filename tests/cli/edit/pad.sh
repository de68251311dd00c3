# The numbers that `pad` takes for each dtype, as stored bytes; and the mean, in float64 and rounded once.
. "$TESTS/edit_input.sh"
# fill DTYPE BYTES NUMBER… - prints the element by which an empty tensor of DTYPE, of BYTES bytes, is padded with each NUMBER
fill()
{
    add_tensor w 0 ''
    header=$(echo "$header" | sed "s/U8/$1/")
    write_tensors w.safetensors
    dtype=$1 width=$2
    shift 2
    for number; do
        ckpt edit -q -f --no-sync w.safetensors -o out.safetensors -e "pad w dim 0 to 1 with $number" 2>error &&
            echo "$dtype $number: $(tail -c "$width" out.safetensors | od -An -tx1 | tr -d ' ')" || sed 's/.*"w"/"w"/' error
    done
}
fill I8 1 127 -128 128 0.5
fill U16 2 65535 -1 65536
fill I64 8 -1 9223372036854775807 9223372036854775808
fill BOOL 1 1 true 2
fill F64 8 0.1 -inf nan
fill F32 4 0.1 1e39 -1e-45
fill F16 2 -0.1 65519 65520 inf nan 0x1
fill BF16 2 0.1 nan -nan
fill F8_E4M3 1 0.1 448 nan inf 500
fill F8_E5M2 1 1 -inf nan
fill F8_E8M0 1 0 1 0.5 3 -1 nan inf
fill C64 8 1.5 nan
# the mean of each row or column
ckpt convert -q -f data/train.pt --root auto --keep '*.fc.*' -o fc.safetensors
mean() { ckpt edit -q -f --no-sync fc.safetensors -o mean.pt "$@" && ckpt show mean.pt 'module.fc.weight[8:,:4]' && ckpt show mean.pt 'module.fc.weight[:2,30:]'; }
mean -e 'pad module.fc.weight dim 0 to 12 with mean' -j 1
mean -e 'cast *.weight f16' -e 'pad *.weight dim 0 to 12 with 1'
mean -e 'pad *.weight dim 1 to 34 with mean ; pad dim 0 to 11 with mean'
for rule in 'pad *.weight dim 0 to 9 with mean' 'pad *.weight dim 0 to 11 with mean ; cast *.weight f16' 'cast *.weight f16 ; pad dim 0 to 11 with mean' \
    'cast *.weight f16 ; pad dim 0 to 11 with 0.1' 'cast *.bias bf16 ; pad dim 0 to 11 with 1e39' 'pad *.weight dim 0 to 10 with mean' \
    'reshape *.weight [-1] ; slice [:0] ; pad dim 0 to 2 with mean'; do
    ckpt edit -n fc.safetensors -e "$rule"
done
add_tensor w 2 ab
write_tensors w.safetensors
ckpt edit w.safetensors -n -e 'pad w dim 0 to 3 with mean'
