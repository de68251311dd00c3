# Scales of the rows are not those of the columns, although the bytes of codes and scales are the same.
quant=corpus/torch/t215/quant_axes.pt
ckpt diff --root-a rows --root-b cols $quant $quant; echo $?
test "$(ckpt hash -t --root rows $quant)" = "$(ckpt hash -t --root cols $quant)" || echo digests differ
