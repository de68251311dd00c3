# The files that DeepSpeed's ranks wrote are converted to one file, of everything or of the weights alone.
D=corpus/deepspeed
for d in zero0_fp32 zero1_bf16 zero2_fp16 zero3_bf16; do
    ckpt convert $D/$d $d.pt
    ckpt diff $D/$d $d.pt
done
ckpt convert $D/zero3_bf16 model.safetensors
ckpt ls model.safetensors
ckpt diff --root auto $D/zero3_bf16 model.safetensors
ckpt convert --root auto $D/zero3_bf16 model.pt
ckpt diff model.pt model.safetensors
ckpt convert --max-shard-size 200B $D/zero3_bf16 shards
ckpt convert --drop optimizer $D/zero2_fp32 weights.pt
ckpt ls weights.pt | tail -n 2
# A rename also changes the names in the states of the optimizer.
ckpt add model. $D/zero2_fp32 -o added.pt
ckpt ls added.pt | grep fc.bias
ckpt strip model. added.pt -o back.pt
ckpt diff $D/zero2_fp32 back.pt
ckpt rename --in-place -s 'fc=>linear' $D/zero2_fp32
