# A folder of GGUF files is no checkpoint itself; the answer names the option that takes each.
mkdir models && cp corpus/gguf/bf16.gguf corpus/gguf/align16.gguf models
ckpt ls models; echo $?
