# The extremes of ggml's blocks and of floats of four, six and eight bits are no integers.
ckpt stat -g '*.Q4_0' corpus/gguf/quantised.gguf
ckpt stat --tsv -g 'float?_*' corpus/flax/lowbit.msgpack | cut -f 1-6
