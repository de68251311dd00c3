# GGUF is read: quantized blocks are shown as numbers, pairs are metadata, and split models are one checkpoint.
G=corpus/gguf
ckpt ls $G/quantised.gguf
ckpt ls --json $G/bigendian_q.gguf
ckpt info $G/metadata.gguf
ckpt meta $G/metadata.gguf | sed -n 1,24p
ckpt show $G/metadata.gguf __metadata__.k.u64
ckpt show --json $G/metadata.gguf __metadata__.a.f32
ckpt show $G/rand_Q4_K.gguf 'blk.0.w[1,254:260]'; ckpt show $G/rand_Q4_K.gguf 'blk.0.w[1,-1:]'
ckpt show $G/rand_Q8_K.gguf blk.0.w; echo $?
ckpt stat $G/quantised.gguf
ckpt hash --cast f32 $G/rand_Q6_K.gguf
ckpt hash --cast f32 $G/rand_Q8_K.gguf; echo $?
ckpt hash --cast q6_K $G/rand_Q6_K.gguf; ckpt hash --cast fp33 $G/rand_Q6_K.gguf; echo $?
ckpt convert $G/rand_Q4_K.gguf -o q.safetensors; echo $?
ckpt convert --cast f32 $G/rand_Q4_K.gguf -o q.safetensors && ckpt diff $G/rand_Q4_K.gguf q.safetensors; echo $?
ckpt convert $G/rand_Q4_K.gguf -o q.pt; echo $?
ckpt verify $G/quantised.gguf $G/edge/trunc_data.gguf; echo $?
ckpt ls $G/split_size-00001-of-00003.gguf
ckpt info $G/split_size-00002-of-00003.gguf
mkdir s; cp $G/split_size-0000[12]-of-00003.gguf s
ckpt ls s/split_size-00001-of-00003.gguf; echo $?
ckpt salvage s/split_size-00001-of-00003.gguf -o s.safetensors; echo $?
cp $G/split_tensors-00003-of-00003.gguf s/split_size-00003-of-00003.gguf
ckpt ls s/split_size-00001-of-00003.gguf; cp s/split_size-00002-of-00003.gguf s/split_size-00003-of-00003.gguf
ckpt ls s/split_size-00001-of-00003.gguf; echo $?
cp s/split_size-00001-of-00003.gguf alone.gguf; ckpt ls alone.gguf
ckpt info $G/odd_name80.gguf; ckpt info $G/edge/trailing.gguf
for f in arr_lie dims_overflow kv_lie past_end trunc_head v4 arr_deep; do ckpt ls $G/edge/$f.gguf; echo $?; done
