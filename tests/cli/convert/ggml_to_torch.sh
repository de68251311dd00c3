# Blocks of ggml that torch lacks: the hint makes them numbers, and works.
ckpt convert corpus/gguf/quantised.gguf out.pt; echo $?
ckpt convert -q --cast '*=bfloat16' corpus/gguf/quantised.gguf out.pt && ckpt ls out.pt -g '*Q4_0'
