# verify reads each record of a DeepSpeed checkpoint and names what a missing or damaged rank held; salvage writes the rest.
D=corpus/deepspeed
ckpt verify $D/zero3_bf16
ckpt doctor $D/zero3_bf16
for d in optim_missing_rank model_missing trunc z3_model_missing_rank; do
    echo "== $d"
    ckpt verify $D/bad/$d
    ckpt salvage $D/bad/$d -o $d.pt && ckpt ls $d.pt
done
cp -r $D/zero2_bf16 d
chmod -R u+w d
rm d/global_step2/bf16_zero_pp_rank_0_*
ckpt salvage d -o last.pt
ckpt ls last.pt
