# GGUF is read: quantized blocks are shown as numbers, key-value pairs as metadata, and a split model as one checkpoint.
gguf=corpus/gguf
ckpt ls $gguf/quantised.gguf
ckpt ls --json $gguf/bigendian_q.gguf
ckpt info $gguf/metadata.gguf
ckpt meta $gguf/metadata.gguf | sed -n 1,24p
ckpt show $gguf/metadata.gguf __metadata__.k.u64
ckpt show --json $gguf/metadata.gguf __metadata__.a.f32
ckpt show $gguf/rand_Q4_K.gguf 'blk.0.w[1,254:260]'; ckpt show $gguf/rand_Q4_K.gguf 'blk.0.w[1,-1:]'
ckpt show $gguf/rand_Q8_K.gguf blk.0.w; echo $?
ckpt stat $gguf/quantised.gguf
ckpt hash --cast f32 $gguf/rand_Q6_K.gguf
ckpt hash --cast f32 $gguf/rand_Q8_K.gguf; echo $?
ckpt hash --cast q6_K $gguf/rand_Q6_K.gguf; ckpt hash --cast fp33 $gguf/rand_Q6_K.gguf; echo $?
ckpt convert $gguf/rand_Q4_K.gguf -o q.safetensors; echo $?
ckpt convert --cast f32 $gguf/rand_Q4_K.gguf -o q.safetensors && ckpt diff $gguf/rand_Q4_K.gguf q.safetensors; echo $?
ckpt convert $gguf/rand_Q4_K.gguf -o q.pt; echo $?
ckpt verify $gguf/quantised.gguf $gguf/edge/trunc_data.gguf; echo $?
ckpt ls $gguf/split_size-00001-of-00003.gguf
ckpt info $gguf/split_size-00002-of-00003.gguf
mkdir s; cp $gguf/split_size-0000[12]-of-00003.gguf s
ckpt ls s/split_size-00001-of-00003.gguf; echo $?
ckpt salvage s/split_size-00001-of-00003.gguf -o s.safetensors; echo $?
cp $gguf/split_tensors-00003-of-00003.gguf s/split_size-00003-of-00003.gguf
ckpt ls s/split_size-00001-of-00003.gguf; cp s/split_size-00002-of-00003.gguf s/split_size-00003-of-00003.gguf
ckpt ls s/split_size-00001-of-00003.gguf; echo $?
cp s/split_size-00001-of-00003.gguf alone.gguf; ckpt ls alone.gguf
ckpt info $gguf/odd_name80.gguf; ckpt info $gguf/edge/trailing.gguf
for f in arr_lie dims_overflow kv_lie past_end trunc_head v4 arr_deep; do ckpt ls $gguf/edge/$f.gguf; echo $?; done
# a folder with a split model: its first part is the one to name
mkdir split; cp $gguf/split_size-*.gguf split; ckpt ls split; ckpt stat split 2>&1 | tail -n 1
