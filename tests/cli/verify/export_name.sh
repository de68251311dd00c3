# The first name in the central directory of a .pt2 is damaged: it is still a .pt2, and the sample inputs in it are not
# read in place of its weights.
. "$TESTS/interrupt_edit.sh"
cp corpus/torch/t215/export_bf16.pt2 a.pt2
name=export_bf16/data/weights/weight_0
at=$(LC_ALL=C grep -abo $name a.pt2 | tail -n 1)
printf X | overwrite a.pt2 "${at%%:*}"
ckpt hash a.pt2; echo $?
ckpt verify a.pt2; echo $?
