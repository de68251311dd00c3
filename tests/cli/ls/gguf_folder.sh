# A folder of several GGUF files is refused, and the hint names the option that lists each.
mkdir models && cp corpus/gguf/bf16.gguf corpus/gguf/align16.gguf models
ckpt ls models; echo $?
