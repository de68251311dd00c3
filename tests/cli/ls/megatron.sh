# Folders of Megatron-LM are listed as one checkpoint, joined by rules; they are refused if a rank or a rule is missing.
megatron=corpus/megatron
ckpt info $megatron/tp2_pp2
ckpt ls $megatron/tp2_pp2
ckpt info --json $megatron/tp2_pp2/iter_0000100 | grep -o '"ranks":{[^}]*}'
ckpt diff $megatron/tp2_pp2 $megatron/tp1 2>/dev/null
ckpt ls $megatron/old
for folder in bad_missing_rank bad_tracker_wrong; do
    ckpt ls $megatron/$folder
done
# A stage of the pipeline is missing.
cp -r $megatron/tp2_pp2 stage
rm -r stage/iter_0000100/mp_rank_0?_001
ckpt ls stage
# A rank of the first stage is missing.
cp -r $megatron/tp2_pp2 rank
rm -r rank/iter_0000100/mp_rank_01_000
ckpt ls rank
ckpt verify rank
ckpt salvage rank -o saved.pt | tail -n 5
# A tracker that contains a path is refused.
cp -r $megatron/tp2 odd
printf '../tp1\n' >odd/latest_checkpointed_iteration.txt
ckpt ls odd
# A newline after the number of the iteration is accepted.
printf '100\n' >odd/latest_checkpointed_iteration.txt
ckpt ls odd | wc -l
# Without a tracker, the folder of an iteration can be given.
rm -f odd/latest_checkpointed_iteration.txt
ckpt ls odd/iter_0000100 | wc -l
# A folder with a third number belongs to a rank of expert parallelism, which is refused.
mv odd/iter_0000100/mp_rank_01 odd/iter_0000100/mp_rank_01_000_001
ckpt ls odd/iter_0000100
rm -r odd/iter_0000100/mp_rank_01_000_001
# A rank whose file is a link out of the folder is refused.
mkdir odd/iter_0000100/mp_rank_01
ln -s ../../../$megatron/tp2/iter_0000100/mp_rank_01/model_optim_rng.pt odd/iter_0000100/mp_rank_01/model_optim_rng.pt
ckpt ls odd/iter_0000100
# The folder of the iteration may be a link to another folder in the checkpoint.
cp -r $megatron/tp2 linked
mv linked/iter_0000100 linked/kept
ln -s kept linked/iter_0000100
ckpt ls linked | wc -l
# It may not be a link out of the checkpoint.
mv linked/kept elsewhere
ln -sfn ../elsewhere linked/iter_0000100
ckpt ls linked
