# -f replaces no file of the set that is read, for every kind of set: neither files that were read nor, where each file
# is a checkpoint of its own, the other files of the set
# try NAME IN FILE… - tries to replace each FILE by a conversion of IN, and prints those that are not refused and how
# many there are
try()
{
    name=$1 in=$2 n=0
    shift 2
    for file; do
        ckpt convert -f --dry-run --to torch-zip "$in" "$file" >out 2>&1 && echo "not refused: $in $file"
        grep -q 'part of the input' out || sed "s|^|$in $file: |" out
        n=$((n + 1))
    done
    echo "$name: $n files"
}
mkdir set
for folder in deepspeed/zero2_bf16 deepspeed/zero3_fp32 deepspeed/emulated/universal_zero2_bf16 megatron/tp2_pp2 \
    orbax/plain_zarr3 orbax/ocdbt_zarr2 orbax/standard torch/dist26/dcp_multi torch/t215/eco/hf_gpt2_sharded \
    trainers/lightning_fsdp.ckpt trainers/torch_dist trainers/accelerate_ranks; do
    cp -R "corpus/$folder" set/
    rm -f set/*/*config.json set/*/random_states* set/*/scheduler* set/*/*/metadata.json set/*/fingerprint.pb
    try "$folder" "set/${folder##*/}" $(find "set/${folder##*/}" -type f | LC_ALL=C sort)
done
cp corpus/gguf/split_size* corpus/torch/dist26/fsdp_sharded_rank* corpus/tensorflow/bad/data_trailing* .
cp -R corpus/tensorflow/savedmodel_v1 .
try SavedModel savedmodel_v1 savedmodel_v1/saved_model.pb savedmodel_v1/variables/*
try 'GGUF, by the first' split_size-00001-of-00003.gguf split_size-*
try 'GGUF, by the second' split_size-00002-of-00003.gguf split_size-0000[13]-*
try shard set/hf_gpt2_sharded/model-00002* set/hf_gpt2_sharded/model-0000[13]*
try 'rank file' fsdp_sharded_rank1.pt fsdp_sharded_rank0.pt
try prefix data_trailing data_trailing.*
try index data_trailing.index data_trailing.*
cp -R corpus/onnx/ext_one .
try ONNX ext_one/*.onnx ext_one/*
cp corpus/paddle/infer/* .
try Paddle net.pdiparams net.*

echo '# nor a set of which the input is one shard: its other shards would be removed'
ckpt convert -f --max-shard-size 1kB set/hf_gpt2_sharded/model-00002-of-00004.safetensors set/hf_gpt2_sharded; echo $?
ckpt meta -f split_size-00001-of-00003.gguf a=b -o split_size-00002-of-00003.gguf; echo $?
ckpt meta -f split_size-00002-of-00003.gguf a=b -o split_size-00003-of-00003.gguf; echo $?
ckpt verify -qf --write-manifest=split_size-00003-of-00003.gguf split_size-00001-of-00003.gguf; echo $?
cmp split_size-00003-of-00003.gguf corpus/gguf/split_size-00003-of-00003.gguf

echo '# a link to nowhere is not followed without -f'
ln -s nowhere.pt link.pt
ckpt convert net.pdiparams link.pt; echo $?
ckpt convert --dry-run net.pdiparams link.pt; echo $?
ckpt convert --max-shard-size 1kB net.pdiparams link.pt; echo $?
ls -d link* nowhere* 2>/dev/null
ckpt convert -f net.pdiparams link.pt; echo $?
ls -d nowhere* link*
