# --max-shard-size writes shards and an index with the names of Hugging Face, which are read back as one checkpoint.
ckpt convert --max-shard-size 10kB data/train.pt model.safetensors
ls
ckpt diff --root auto data/train.pt model.safetensors.index.json
for s in 5g 5Gi 5GBB 0 10XB 16P00 16777216T -1 1.5GB; do ckpt convert --max-shard-size $s data/train.pt x.safetensors; echo $?; done
# 1K means 1024 bytes, as for split(1), and 1kB 1000: only 1K has room for 1012 bytes.
{ printf '\164\0\0\0\0\0\0\0{"a":{"dtype":"U8","shape":[500],"data_offsets":[0,500]},'
printf '"b":{"dtype":"U8","shape":[512],"data_offsets":[500,1012]}}'
head -c 1012 /dev/zero; } >1012.safetensors
for s in 1kB 1000 1KB 1k 1K 1KiB 1024B; do
    ckpt convert -q --max-shard-size $s 1012.safetensors sizes
    echo $s $(ls sizes | wc -l)
    rm -r sizes
done
rm 1012.safetensors
# Several files cannot be written to standard output.
ckpt convert --max-shard-size 1MB data/train.pt - --to safetensors; echo $?
# Writing a set over an old one removes the shards of the old set, but no file that belongs to neither set.
touch model-00001-of-00099.safetensors
ckpt convert -f -q --max-shard-size 20kB data/train.pt model.safetensors
ls
ckpt diff --root auto data/train.pt model.safetensors.index.json
# ls -l names the shard of each tensor
ckpt convert -q --max-shard-size 10kB --to safetensors data/train.pt listed; ckpt ls -l listed -g '*conv*'
ckpt convert -q --max-shard-size 10kB --root auto data/train.pt listed_torch; ckpt ls -l listed_torch -g '*conv*'
