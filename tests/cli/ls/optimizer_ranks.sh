# a folder with the optimizer's files of all ranks and none of a model; the same state is in a distributed checkpoint
mkdir actor
cp corpus/trainers/verl/global_step_4/actor/optim_world_size_2_rank_*.pt corpus/trainers/verl/global_step_4/actor/extra_state_* actor
ckpt ls actor
ckpt info actor | sed -n '1,2p'
ckpt diff --root optimizer corpus/trainers/accelerate_fsdp/optimizer_0 actor
cp actor/optim_world_size_2_rank_0.pt actor/model.pt
ckpt ls actor
rm actor/model.pt actor/optim_world_size_2_rank_1.pt
ckpt ls actor
