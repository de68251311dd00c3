# verify reads each record of a DeepSpeed checkpoint and names what a missing or damaged rank held; salvage writes the rest.
deepspeed=corpus/deepspeed
ckpt verify $deepspeed/zero3_bf16
ckpt doctor $deepspeed/zero3_bf16
for d in optim_missing_rank model_missing trunc z3_model_missing_rank; do
    echo "== $d"
    ckpt verify $deepspeed/bad/$d
    ckpt salvage $deepspeed/bad/$d -o $d.pt && ckpt ls $d.pt
done
cp -r $deepspeed/zero2_bf16 d
chmod -R u+w d
rm d/global_step2/bf16_zero_pp_rank_0_*
ckpt salvage d -o last.pt
ckpt ls last.pt
