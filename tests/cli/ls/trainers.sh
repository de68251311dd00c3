# The folder of a trainer is read as the model in it; one with several models or steps is refused.
trainers=corpus/trainers
for folder in accelerate_plain accelerate_fsdp accelerate_ranks verl verl/global_step_4 verl/global_step_4/actor; do
    echo "== $folder"
    ckpt ls $trainers/$folder
    ckpt info $trainers/$folder | head -n 3
done
ckpt ls $trainers/accelerate_fsdp/optimizer_0 | head -n 2
echo '== lightning_fsdp.ckpt'
ckpt ls --values $trainers/lightning_fsdp.ckpt | grep -v optimizer_0.param_groups
ckpt info $trainers/lightning_fsdp.ckpt | head -n 3
# Megatron's torch_dist is read: torch_dist has a file common.pt, torch_dist_2026 has its content in .metadata.
for folder in torch_dist torch_dist_2026; do
    echo "== $folder"
    ckpt ls --values $trainers/$folder
    ckpt info $trainers/$folder | head -n 3
done
ckpt add net. $trainers/torch_dist_2026 -o renamed
ckpt diff $trainers/torch_dist_2026 renamed | tail -n 1
# Accelerate saves a DeepSpeed model to the folder pytorch_model, with files of its own next to it.
cp -r corpus/deepspeed/zero2_bf16 deepspeed
chmod -R u+w deepspeed
mv deepspeed/global_step2 deepspeed/pytorch_model
echo pytorch_model >deepspeed/latest
cp $trainers/accelerate_fsdp/scheduler.bin $trainers/accelerate_fsdp/random_states_0.pkl deepspeed
ckpt ls deepspeed | head -n 2
# A Hugging Face run has a folder for each step, but no file that names the last one.
mkdir run run/checkpoint-9 run/checkpoint-10 run/logs
ckpt ls run
cp -r $trainers/verl $trainers/accelerate_fsdp $trainers/lightning_fsdp.ckpt .
chmod -R u+w verl accelerate_fsdp lightning_fsdp.ckpt
# A rank of the model is missing.
mv verl/global_step_4/actor/model_world_size_2_rank_1.pt kept
ckpt ls verl
mv kept verl/global_step_4/actor/model_world_size_2_rank_1.pt
# Two models are refused, but each can be read by its own folder.
cp -r verl/global_step_4/actor verl/global_step_4/critic
ckpt ls verl
ckpt ls verl/global_step_4/critic | head -n 1
# The tracker names a step that is missing, a path, nothing, or a number that is too large.
for step in 5 ../verl/global_step_4 '' 99999999999999999999; do
    printf %s "$step" >verl/latest_checkpointed_iteration.txt
    ckpt ls verl
done
# A folder with two models is refused.
cp -r accelerate_fsdp/pytorch_model_fsdp_0 accelerate_fsdp/pytorch_model_fsdp_1
ckpt ls accelerate_fsdp
# A model that is a link out of the folder is refused.
rm -r accelerate_fsdp/pytorch_model_fsdp_0
mv accelerate_fsdp/pytorch_model_fsdp_1 elsewhere
ln -s ../elsewhere accelerate_fsdp/pytorch_model_fsdp_1
ckpt ls accelerate_fsdp
# verl keeps the model of Megatron one folder deeper (dist_ckpt); deeper nesting is not followed.
mkdir -p deep/actor/huggingface
cp -r elsewhere deep/actor/dist_ckpt
ckpt info deep | head -n 1
mkdir -p dist_ckpt/dist_ckpt/dist_ckpt/dist_ckpt/dist_ckpt/dist_ckpt
for folder in dist_ckpt dist_ckpt/dist_ckpt dist_ckpt/dist_ckpt/dist_ckpt; do : >$folder/dist_ckpt/.metadata; done
ckpt ls dist_ckpt
# meta.pt, which holds the values that are not tensors, has a key that the checkpoint itself has.
cd lightning_fsdp.ckpt
ckpt convert -q . -o ../all.pt
mv meta.pt kept.pt
cp ../all.pt meta.pt
ckpt ls . | tail -n 1
# meta.pt is cut off.
head -c 900 kept.pt >meta.pt
ckpt ls .
ckpt verify .
ckpt salvage . -o ../salvaged.pt
# meta.pt is not a dict, but an archive of numpy.
ckpt convert -q ../all.pt meta.npz --root model --to npz && mv meta.npz meta.pt
ckpt ls . | tail -n 1
# meta.pt is a link out of the folder.
rm meta.pt
ln -s ../all.pt meta.pt
ckpt ls .
