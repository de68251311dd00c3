# The files that DeepSpeed's ranks wrote are converted to one file or to shards, with or without the
# optimizer's state.
deepspeed=corpus/deepspeed
for d in zero0_fp32 zero1_bf16 zero2_fp16 zero3_bf16; do
    ckpt convert $deepspeed/$d $d.pt
    ckpt diff $deepspeed/$d $d.pt
done
ckpt convert $deepspeed/zero3_bf16 model.safetensors
ckpt ls model.safetensors
ckpt diff --root auto $deepspeed/zero3_bf16 model.safetensors
ckpt convert --root auto $deepspeed/zero3_bf16 model.pt
ckpt diff model.pt model.safetensors
ckpt convert --max-shard-size 200B $deepspeed/zero3_bf16 shards
ckpt convert --drop optimizer $deepspeed/zero2_fp32 weights.pt
ckpt ls weights.pt | tail -n 2
# A rename also changes the names in the states of the optimizer.
ckpt add model. $deepspeed/zero2_fp32 -o added.pt
ckpt ls added.pt | grep fc.bias
ckpt strip model. added.pt -o back.pt
ckpt diff $deepspeed/zero2_fp32 back.pt
ckpt rename --in-place -s 'fc=>linear' $deepspeed/zero2_fp32
