# A DeepSpeed folder is listed as one checkpoint: parameters in 32 bits, and states of the optimizer by name.
deepspeed=corpus/deepspeed
for d in zero0_fp32 zero1_bf16 zero3_fp32 lightning.ckpt; do
    echo "== $d"
    ckpt ls $deepspeed/$d
done
ckpt ls --values $deepspeed/zero2_bf16 | grep -v -e ds_config -e betas -e param_groups.1
# The folder of one step, and the 16-bit file next to it, can be given, too.
ckpt diff $deepspeed/zero3_bf16 $deepspeed/zero3_bf16/global_step2
ckpt diff --root auto $deepspeed/zero1_fp32 $deepspeed/zero2_fp32
ckpt ls $deepspeed/zero3_bf16/pytorch_model.bin | head -n 2
ckpt ls --root auto $deepspeed/zero3_bf16
for d in latest_wrong model_missing no_latest optim_missing_rank trunc z3_model_missing_rank; do
    ckpt ls $deepspeed/bad/$d
done
# A `latest` that leads out of the folder or names no step, and files that are links out of the folder, are refused.
cp -r $deepspeed/zero2_fp32 out
chmod -R u+w out
for tag in ../out/global_step2 /tmp '' global_step2/mp_rank_00_model_states.pt .; do
    printf '%s\n' "$tag" >out/latest
    ckpt ls out
done
printf global_step2 >out/latest
mv out/global_step2 elsewhere
ln -s ../elsewhere out/global_step2
ckpt ls out
# Tensors divided by tensor parallelism, and an optimizer file of a rank that does not exist, are refused.
rm out/global_step2
cp -r elsewhere out/global_step2
cp out/global_step2/mp_rank_00_model_states.pt out/global_step2/mp_rank_01_model_states.pt
ckpt ls out
mv out/global_step2/mp_rank_01_model_states.pt out/global_step2/zero_pp_rank_2_mp_rank_00_optim_states.pt
ckpt ls out
# The file of one rank is listed alone, with a notice that it is a part.
for f in zero3_bf16/global_step2/zero_pp_rank_0_mp_rank_00_model_states.pt zero2_bf16/global_step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt zero2_bf16/global_step2/mp_rank_00_model_states.pt; do
    ckpt ls $deepspeed/$f | tail -n 1
done
# Pipelines, experts and universal checkpoints are read; these files were made by hand in DeepSpeed's layout.
for d in pipeline experts universal_zero2_bf16 universal_zero3_bf16; do
    echo "== $d"
    ckpt ls $deepspeed/emulated/$d | grep -v optimizer
    ckpt info $deepspeed/emulated/$d | head -n 4
done
ckpt diff $deepspeed/zero2_bf16 $deepspeed/emulated/universal_zero2_bf16
cp -r $deepspeed/emulated/universal_zero2_bf16 universal
chmod -R u+w universal
rm -r universal/global_step2_universal/zero/odd
ckpt ls universal
# Without tensor parallelism the names of the files of layers have no model_MM.
cp -r $deepspeed/emulated/pipeline layers
chmod -R u+w layers
for f in layers/*/layer_*; do
    mv "$f" "$(echo "$f" | sed 's/-model_00-/-/')"
done
ckpt diff $deepspeed/emulated/pipeline layers
