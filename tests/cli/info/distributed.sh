# info shows how many ranks wrote a distributed checkpoint.
dist=corpus/torch/t215/dist
for d in dcp_fsdp2 dcp_no_collectives dcp_hf_sharded; do
    ckpt info $dist/$d | grep -v '^dtypes'
done
ckpt info data/mesh_2x2 | sed -n 2p
ckpt info --json $dist/dcp_fsdp2 | grep -o '"ranks":{[^}]*}'
