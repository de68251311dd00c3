# info shows how many ranks wrote a distributed checkpoint.
dist=corpus/torch/t215/dist
for d in dcp_fsdp2 dcp_no_collectives dcp_hf_sharded; do
    ckpt info $dist/$d | grep -v '^dtypes'
done
ckpt info data/mesh_2x2 | sed -n 2p
ckpt info --json $dist/dcp_fsdp2 | grep -o '"ranks":{[^}]*}'
# A file of one rank is named as such; one of complete tensors is not, which only its name and its offsets show.
write_file() # NAME JSON, in which quotes are escaped
{
    printf '\350\0\0\0\0\0\0\0%-232s\0\0\0\0' '{"__metadata__":{"DCP_SHARDING_INFO":"'"$2"'","format":"pt"},
"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}' >"$1"
}
zero='{\"a\": {\"saved_offsets\": [0]}}'
for name in model-00001-of-00001 shard-00001-model-00001-of-00001 renamed; do write_file $name.safetensors "$zero"; done
write_file model-00001-of-00004.safetensors '{\"a\": {\"saved_offsets\": [2]}}'
write_file model-00002-of-00004.safetensors '{\"a\": {\"saved_offsets\": [0]}'
write_file model-00003-of-00004.safetensors '{\"a\": {}}'
write_file model-00004-of-00004.safetensors '{}'
for file in *.safetensors; do ckpt ls "$file"; done 2>&1
