# info shows how many ranks wrote a DeepSpeed checkpoint, at which ZeRO stage, and at which step.
deepspeed=corpus/deepspeed
for d in zero0_fp32 zero1_bf16 zero2_fp16 zero3_fp32 emulated/pipeline; do
    ckpt info $deepspeed/$d | head -n 3
done
ckpt info --json $deepspeed/zero3_fp32 | grep -o '"ranks":{[^}]*}'
