# Modules that differ only by a number in their names are folded, from the tensors upward; a different one is a line of
# its own, and may leave a gap. A number with leading zeros is no number, and of two tensors of one name none is folded.
. "$TESTS/safetensors.sh"
# print_header - prints a header with the tensors in the lines "NAME DTYPE SIZE"; each element has one byte
print_header()
{
    awk '{ printf "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[%d,%d]}", (NR > 1 ? "," : "{"), $1, $2, $3,
               at, at + $3; at += $3 }
         END { print "}" }'
}
print_model()
{
    echo embed.weight U8 20
    for layer in 0 1 2 3 4 5 11; do
        echo "layers.$layer.norm.weight U8 4"
        case $layer in
        0) echo "layers.$layer.mlp.up U8 9" ;;
        3) for expert in 0 1 2; do echo "layers.$layer.mlp.experts.$expert.w1 I8 3"; done ;;
        *) for expert in 0 1 3 10; do echo "layers.$layer.mlp.experts.$expert.w1 U8 3"; done
           for expert in 0 1 3 10; do echo "layers.$layer.mlp.experts.$expert.w2 U8 2"; done ;;
        esac
    done
    for head in 0 1 3 5 7 9 11 13 15 16; do echo "head.$head.a U8 $((head % 2 * 2 + 1))"; done
    for name in w1 w2 w3 rank_0_a rank_1_a rank_0_b x01 x02 x1 x2 y1 y2.z 123456789012345678901 123456789012345678902; do
        echo "$name U8 1"
    done
}
print_model | print_header >header
print_safetensors "$(cat header)" '' >m.safetensors
head -c "$(print_model | awk '{n += $3} END {print n}')" /dev/zero >>m.safetensors
ckpt tree m.safetensors
ckpt tree --draw m.safetensors
ckpt tree --draw --no-fold --depth 2 m.safetensors
ckpt tree --draw --order=size --depth 2 m.safetensors
ckpt tree -g '*experts*' m.safetensors
ckpt tree --draw -g '*experts*' m.safetensors
