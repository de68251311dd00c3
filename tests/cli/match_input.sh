# match_input.sh - makes files of tensors for the tests of match.
. "$TESTS/safetensors.sh"
# write_model FILE - writes FILE with the tensors in the lines "NAME SIZE…" of standard input; elements are zeros
write_model()
{
    cat >lines
    print_safetensors "$(awk '{ n = 4; shape = ""
             for (i = 2; i <= NF; i++) { n *= $i; shape = shape (i > 2 ? "," : "") $i }
             printf "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%d,%d]}", (NR > 1 ? "," : "{"), $1,
                 shape, at, at + n; at += n }
         END { print "}" }' lines)" '' >"$1"
    head -c "$(awk '{ n = 4; for (i = 2; i <= NF; i++) n *= $i; sum += n } END { print sum }' lines)" /dev/zero >>"$1"
}
# mend WANTED FILE - writes FILE by the rules that match proposes, and compares the result with WANTED
mend()
{
    ckpt match -q --rules "$1" "$2" >rules
    ckpt edit -q "$2" --rules rules -f -o mended.safetensors && ckpt match "$1" mended.safetensors
}
