# Folders of Megatron-LM are listed as one checkpoint, joined by rules; they are refused if a rank or a rule is missing.
M=corpus/megatron
ckpt info $M/tp2_pp2
ckpt ls $M/tp2_pp2
ckpt info --json $M/tp2_pp2/iter_0000100 | grep -o '"ranks":{[^}]*}'
ckpt diff $M/tp2_pp2 $M/tp1 2>/dev/null
ckpt ls $M/old
for d in bad_missing_rank bad_tracker_wrong; do
    ckpt ls $M/$d
done
# A stage that is missing; a rank of one.
cp -r $M/tp2_pp2 stage
rm -r stage/iter_0000100/mp_rank_0?_001
ckpt ls stage
cp -r $M/tp2_pp2 one
rm -r one/iter_0000100/mp_rank_01_000
ckpt ls one
ckpt verify one
ckpt salvage one -o saved.pt | tail -n 5
# The tracker: no number, out of the folder, not there.
cp -r $M/tp2 odd
printf '../tp1\n' >odd/latest_checkpointed_iteration.txt
ckpt ls odd
printf '100\n' >odd/latest_checkpointed_iteration.txt
ckpt ls odd | wc -l
rm -f odd/latest_checkpointed_iteration.txt
ckpt ls odd/iter_0000100 | wc -l
# Ranks of experts; a rank whose file is a link out of the folder.
mv odd/iter_0000100/mp_rank_01 odd/iter_0000100/mp_rank_01_000_001
ckpt ls odd/iter_0000100
rm -r odd/iter_0000100/mp_rank_01_000_001
mkdir odd/iter_0000100/mp_rank_01
ln -s ../../../$M/tp2/iter_0000100/mp_rank_01/model_optim_rng.pt odd/iter_0000100/mp_rank_01/model_optim_rng.pt
ckpt ls odd/iter_0000100
# The folder of the iteration is a link, inside of the folder and out of it.
cp -r $M/tp2 linked
mv linked/iter_0000100 linked/kept
ln -s kept linked/iter_0000100
ckpt ls linked | wc -l
mv linked/kept elsewhere
ln -sfn ../elsewhere linked/iter_0000100
ckpt ls linked
