# A file with ggml blocks, for which torch has no dtype, is refused, and the command in the hint works.
ckpt convert corpus/gguf/quantised.gguf out.pt; echo $?
ckpt convert -q --cast '*=bfloat16' corpus/gguf/quantised.gguf out.pt && ckpt ls out.pt -g '*Q4_0'
