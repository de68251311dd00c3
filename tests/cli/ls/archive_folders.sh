# folders with a checkpoint in archives: a distributed one in a .nemo, as NeMo writes it, and others
n=corpus/containers/torch_dist.nemo dcp=corpus/trainers/torch_dist/iter_0000003
ckpt ls --values $n
ckpt info $n | head -n 3
ckpt verify $n "$n!model_weights"
ckpt show "$n!model_weights" decoder.final_layernorm.weight
ckpt diff $n $dcp
ckpt convert --root '' $n -o out.safetensors
ckpt diff out.safetensors $n
ckpt strip decoder. $n -o out.dcp
ckpt diff out.dcp $dcp
ckpt doctor "$n!model_weights"
# compressed, pax, and the folder at the top of the archive
gzip -c $n >gz.nemo
mkdir -p t/model_weights top
cp $dcp/* $dcp/.metadata t/model_weights
cp $dcp/* $dcp/.metadata top
tar --format=pax -cf pax.nemo -C t model_weights
tar -czf top.tar.gz -C top .
for f in gz.nemo pax.nemo top.tar.gz; do
    ckpt diff $f $dcp
done
ckpt verify pax.nemo top.tar.gz
# other folders: shards with an index; named, since the names of their files show nothing
tar -cf hub.tar -C corpus/torch/t215/eco hub_safetensors_sharded hub_bin_sharded
ckpt ls hub.tar
ckpt diff 'hub.tar!hub_safetensors_sharded' 'hub.tar!./hub_bin_sharded/pytorch_model.bin.index.json'
tar -cf one.tar -C corpus/torch/t215/eco hub_safetensors_sharded
ckpt diff one.tar corpus/torch/t215/eco/hub_safetensors_sharded
set -- orbax/manager orbax/array/zarr3_sharding_zstd_crc orbax/kv/tree torchsnapshot/batched zarr/group_v3/encoder \
    tensorflow/v2/run tensorflow/savedmodel_v2 trainers/verl trainers/accelerate_fsdp megatron/tp2_pp2 \
    deepspeed/zero3_bf16 deepspeed/emulated/universal_zero3_bf16 keras/k3/unzipped openvino/net tfjs/uint8 \
    onnx/ext_one/one.onnx torch/t215/dist/dcp_zstd torch/t215/dist/dcp_safetensors \
    torch/t215/eco/hf_gpt2_sharded
tar -cf many.tar -C corpus "$@" onnx/ext_one/one.onnx.data
for folder in "$@"; do
    ckpt diff -q "many.tar!$folder" corpus/$folder 2>/dev/null && echo "$folder: same"
done
# next to a file in an archive: other shards, external data, config.json
tar -cf gguf.tar -C corpus/gguf split_tensors-00001-of-00003.gguf split_tensors-00002-of-00003.gguf \
    split_tensors-00003-of-00003.gguf
ckpt diff gguf.tar corpus/gguf/split_tensors-00001-of-00003.gguf
tar -cf mlx.tar -C corpus/quantized/mlx4_64_float16 .
ckpt convert --dequantize mlx.tar -o archived.safetensors
ckpt convert --dequantize corpus/quantized/mlx4_64_float16 -o unpacked.safetensors
cmp archived.safetensors unpacked.safetensors
# what is not there, not clear, not written
ckpt ls "$n!weights"
ckpt ls "$n!model_weights/__2_0.distcp"
ckpt ls "$n!."
mkdir two
cp -R t/model_weights two/a
cp -R t/model_weights two/b
tar -cf two.tar -C two a b
ckpt ls two.tar
ckpt strip -i decoder. $n
cp $n in.nemo
ckpt convert -f --to safetensors in.nemo -o in.nemo
cmp in.nemo $n
# values of a distributed checkpoint
ckpt scan -q $n gz.nemo pax.nemo
echo $?
ckpt scan -q "$n!model_weights/.metadata"
ckpt scan "$n!model_weights"
