# --cast q8_0 makes blocks of 32 numbers for GGUF; a tensor whose rows are no multiple of 32
# keeps its dtype, or is refused if --cast gives its full name.
printf '{"a":{"dtype":"F32","shape":[2,64],"data_offsets":[0,512]},"b":{"dtype":"F32","shape":[4,5],"data_offsets":[512,592]},"n":{"dtype":"F32","shape":[32],"data_offsets":[592,720]}}' >head
{ printf '\260\0\0\0\0\0\0\0'; cat head; awk 'BEGIN {for (i = 0; i < 180; i++) printf "%c%c%c%c", 65 + i % 20, 66, 67 + i % 7, 60 + i % 7}' | head -c 720; } >in.safetensors
ckpt convert --cast q8_0 --architecture net in.safetensors w.gguf
ckpt ls w.gguf
ckpt hash w.gguf
ckpt convert --cast 'n=q8_0' --cast 'a=q8_0' --architecture net --json in.safetensors n.gguf
ckpt convert --cast 'b=q8_0' --architecture net in.safetensors b.gguf; echo $?
ckpt convert --cast '?=q8_0' --architecture net in.safetensors g.gguf; echo $?
ckpt convert --cast q8_0 in.safetensors out.pt; echo $?
ckpt convert --cast q8_0 in.safetensors out.safetensors; echo $?
ckpt convert --cast q8_0 --dry-run --architecture net in.safetensors d.gguf
# Half floats give the same blocks in column-major and in row-major order. Blocks cast to float32 and back are equal.
{ printf '\223NUMPY\1\0\166\0'; printf "%-117s\n" "{'descr': '<f2', 'fortran_order': True, 'shape': (33, 96), }"
  awk 'BEGIN {for (i = 0; i < 3168; i++) printf "%c%c", 1 + i * 7 % 120, 48 + i % 13}'; } >f.npy
ckpt convert f.npy c.npy
for f in f.npy c.npy; do
    ckpt convert --cast '*=q8_0' --architecture net $f ${f%.npy}.gguf
done
ckpt hash c.npy f.npy c.gguf f.gguf
ckpt convert --cast f32 f.gguf b.gguf
ckpt convert --cast q8_0 b.gguf again.gguf
ckpt diff f.gguf again.gguf
ckpt hash --cast q8_0 in.safetensors; echo $?
