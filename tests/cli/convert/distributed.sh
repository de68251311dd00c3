# The files that several ranks wrote are converted to one file with the tensors and values of all, nested as before.
dist=corpus/torch/t215/dist
for d in dcp_dtensor dcp_fsdp2 dcp_2threads dcp_safetensors dcp_hf_sharded; do
    ckpt convert $dist/$d -o $d.pt
    ckpt diff $dist/$d $d.pt
done
ckpt convert --root model $dist/dcp_fsdp2 -o model.safetensors
ckpt diff model.safetensors $dist/fsdp2_full.pt
ckpt strip --root model fc1. $dist/dcp_single -o strip.pt
ckpt ls strip.pt
mkdir ranks
cp $dist/fsdp2_optim_rank?.pt ranks
ckpt convert ranks -o optim.pt
ckpt diff ranks optim.pt
