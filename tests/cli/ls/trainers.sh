# The folder of a trainer is read as the model in it; one with several models or steps is refused.
D=corpus/trainers
for d in accelerate_plain accelerate_fsdp accelerate_ranks verl verl/global_step_4 verl/global_step_4/actor; do
    echo "== $d"
    ckpt ls $D/$d
    ckpt info $D/$d | head -n 3
done
ckpt ls $D/accelerate_fsdp/optimizer_0 | head -n 2
echo '== lightning_fsdp.ckpt'
ckpt ls --values $D/lightning_fsdp.ckpt | grep -v optimizer_0.param_groups
ckpt info $D/lightning_fsdp.ckpt | head -n 3
# Megatron's torch_dist is read, with a file common.pt and with its content in .metadata.
for d in torch_dist torch_dist_2026; do
    echo "== $d"
    ckpt ls --values $D/$d
    ckpt info $D/$d | head -n 3
done
ckpt add net. $D/torch_dist_2026 -o renamed
ckpt diff $D/torch_dist_2026 renamed | tail -n 1
# DeepSpeed by Accelerate; steps without one that is named; a model of several ranks without one of them.
cp -r corpus/deepspeed/zero2_bf16 deepspeed
chmod -R u+w deepspeed
mv deepspeed/global_step2 deepspeed/pytorch_model
echo pytorch_model >deepspeed/latest
cp $D/accelerate_fsdp/scheduler.bin $D/accelerate_fsdp/random_states_0.pkl deepspeed
ckpt ls deepspeed | head -n 2
mkdir run run/checkpoint-9 run/checkpoint-10 run/logs
ckpt ls run
cp -r $D/verl $D/accelerate_fsdp $D/lightning_fsdp.ckpt .
chmod -R u+w verl accelerate_fsdp lightning_fsdp.ckpt
mv verl/global_step_4/actor/model_world_size_2_rank_1.pt kept
ckpt ls verl
mv kept verl/global_step_4/actor/model_world_size_2_rank_1.pt
cp -r verl/global_step_4/actor verl/global_step_4/critic
ckpt ls verl
ckpt ls verl/global_step_4/critic | head -n 1
for number in 5 ../verl/global_step_4 '' 99999999999999999999; do
    printf %s "$number" >verl/latest_checkpointed_iteration.txt
    ckpt ls verl
done
cp -r accelerate_fsdp/pytorch_model_fsdp_0 accelerate_fsdp/pytorch_model_fsdp_1
ckpt ls accelerate_fsdp
rm -r accelerate_fsdp/pytorch_model_fsdp_0
mv accelerate_fsdp/pytorch_model_fsdp_1 elsewhere
ln -s ../elsewhere accelerate_fsdp/pytorch_model_fsdp_1
ckpt ls accelerate_fsdp
# Megatron's model is one folder deeper; folders in folders without an end are none of a trainer.
mkdir -p deep/actor/huggingface
cp -r elsewhere deep/actor/dist_ckpt
ckpt info deep | head -n 1
mkdir -p dist_ckpt/dist_ckpt/dist_ckpt/dist_ckpt/dist_ckpt/dist_ckpt
for d in dist_ckpt dist_ckpt/dist_ckpt dist_ckpt/dist_ckpt/dist_ckpt; do : >$d/dist_ckpt/.metadata; done
ckpt ls dist_ckpt
# Values that are a key of the checkpoint itself, are none, are damaged or elsewhere.
cd lightning_fsdp.ckpt
ckpt convert -q . -o ../all.pt
mv meta.pt kept.pt
cp ../all.pt meta.pt
ckpt ls . | tail -n 1
head -c 900 kept.pt >meta.pt
ckpt ls .
ckpt verify .
ckpt salvage . -o ../salvaged.pt
ckpt convert -q ../all.pt meta.npz --root model --to npz && mv meta.npz meta.pt
ckpt ls . | tail -n 1
rm meta.pt
ln -s ../all.pt meta.pt
ckpt ls .
