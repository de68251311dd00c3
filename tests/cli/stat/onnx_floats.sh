# The extremes of ONNX's floats of four, six and eight bits have fractions: the negative number next to 0, and 1.5; of
# float8_e8m0fnu 0.5 and 2.

# print_tensor NAME TYPE BYTES - prints an initializer of two elements, which takes 13 bytes; TYPE is octal
print_tensor()
{
    # shellcheck disable=SC2059
    printf "\\052\\013\\010\\002\\020\\$2\\102\\001$1\\112\\002$3"
}
{
    printf '\010\012\102\002\020\025\072\150' # IR version 10, operators of version 21, a graph of 104 bytes
    printf '\052\013\010\004\020\027\102\001a\112\002\071\000' # four elements of four bits
    print_tensor b 33 '\041\003' # of six bits
    print_tensor c 34 '\241\003'
    print_tensor d 21 '\201\074'
    print_tensor e 22 '\201\104'
    print_tensor f 23 '\201\076'
    print_tensor g 24 '\201\102'
    print_tensor h 30 '\176\200'
} >floats.onnx
ckpt stat floats.onnx
ckpt stat --tsv floats.onnx | cut -f 1,2,4-6
