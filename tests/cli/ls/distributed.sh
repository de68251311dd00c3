# A folder that several ranks wrote is listed as one checkpoint, with each tensor whole and with all values.
dist=corpus/torch/t215/dist
for d in dcp_single dcp_no_collectives dcp_safetensors dcp_hf_sharded dcp_hf_consolidated dcp_dtensor; do
    echo "== $d"
    ckpt ls --values $dist/$d
done
# A folder with one file of each rank has complete tensors; one file alone has parts.
mkdir ranks local mixed
cp $dist/fsdp2_rank?.pt ranks
cp $dist/fsdp1_local_rank?.pt local
cp $dist/fsdp2_rank0.pt $dist/fsdp1_local_rank1.pt mixed
ckpt ls ranks
ckpt diff ranks $dist/fsdp2_full.pt
ckpt ls ranks/fsdp2_rank1.pt | head -n 2
ckpt ls local
ckpt ls mixed
cp $dist/fsdp2_rank0.pt ranks/fsdp2_rank1.pt
ckpt ls ranks
ckpt info --json $dist/dcp_fsdp2 | grep -o '"format":"[^"]*"'
# The data file of one rank is read alone.
ckpt ls $dist/dcp_fsdp2/__0_0.distcp $dist/dcp_fsdp2/__1_0.distcp
ckpt doctor $dist/dcp_fsdp2/__1_0.distcp
# The files of four ranks in a mesh of 2 by 2 are joined. Their tensors are sharded in two dimensions, sharded twice in
# one dimension, replicated, or sharded by _StridedShard.
ckpt diff data/mesh_2x2 data/mesh_whole/full.pt
cp -r data/mesh_2x2 three
rm -f three/model_rank2.pt
ckpt ls three
