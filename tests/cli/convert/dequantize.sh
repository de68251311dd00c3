# --dequantize writes the floats of each scheme with the digests that tests/oracle/quantized_files.py prints of its library.
for folder in corpus/quantized/*; do
    ckpt convert -f --dequantize "$folder/model.safetensors" out.safetensors >report 2>notices
    echo "${folder##*/}: $(ckpt ls --tsv out.safetensors | cut -f 1,2) $(ckpt hash out.safetensors | grep 'weight$' | cut -d ' ' -f 1)"
    sed 's/.*model.safetensors: //' notices
    for j in 1 3; do ckpt convert -q -j $j --dequantize "$folder/model.safetensors" - | cmp - out.safetensors; done
done
# The numbers are then cast like any others; scales of activations go, too. --json lists the weights.
model=corpus/quantized/comfy/model.safetensors
ckpt convert -f --json --dequantize --cast bf16 $model out.safetensors
ckpt ls out.safetensors
ckpt convert -f --strict --dequantize --cast bf16 $model strict.pt; ckpt diff out.safetensors strict.pt
# In a torch file the names, not the graph, change; --root and --keep select what is dequantized.
ckpt convert -q corpus/quantized/awq/model.safetensors packed.pt
ckpt convert -q --dequantize packed.pt plain.pt; ckpt convert -qf --dequantize packed.pt out.safetensors
ckpt diff plain.pt out.safetensors
ckpt convert -f --dequantize --drop 'l.*' packed.pt out.safetensors; echo $?
# A scheme that is not dequantized, and a file whose scales do not fit, are refused; nothing is written.
rm out.safetensors
cp corpus/quantized/mlx4_64_float16/model.safetensors alone.safetensors
ckpt convert --dequantize alone.safetensors out.safetensors; echo $?
ckpt rename -s 'weight_scale=>wscale' corpus/quantized/ct_fp8_channel_bfloat16/model.safetensors -o unknown.safetensors
ckpt convert --dequantize unknown.safetensors out.safetensors; echo $?
ls out.safetensors
# ggml's blocks become float32, a file without quantized weights stays as it is.
ckpt convert -f --dequantize corpus/gguf/quantised.gguf out.safetensors | sed 's/ .*//'; ckpt ls --tsv out.safetensors | cut -f 2 | sort | uniq -c
ckpt convert -f --dequantize data/train.pt out.pt
# Without a config, how GPTQ's zeros are stored is said, and the size of blocks if the last is smaller. The sizes of a
# config count; only one of them may fit.
cp corpus/quantized/gptq4_v1_float16_act/model.safetensors gptq.safetensors
ckpt convert -f --dequantize gptq.safetensors out.safetensors
mkdir blocks
printf '\300\0\0\0\0\0\0\0%-192s' '{"w":{"dtype":"F8_E4M3","shape":[1,100],"data_offsets":[0,100]},"w_scale_inv":{"dtype":"F32","shape":[1,2],"data_offsets":[100,108]}}' >blocks/model.safetensors
{ head -c 100 /dev/zero | tr '\0' '8'; printf '\0\0\200\077\0\0\0\100'; } >>blocks/model.safetensors # 8 is 1.0; scales 1 and 2
ckpt convert --dequantize blocks/model.safetensors - | ckpt show - w[0,62:66]
echo '{"quantization_config": {"weight_block_size": [50, 50]}}' >blocks/config.json
ckpt convert -q --dequantize blocks/model.safetensors - | ckpt show - w[0,48:52]
echo '{"quantization_config": {"config_groups": {"a": {"weights": {"block_structure": [96, 96]}},
    "b": {"weights": {"group_size": 16}}}}}' >blocks/config.json
ckpt convert -q --dequantize blocks/model.safetensors - | ckpt show - w[0,94:98]
echo '{"quantization_config": {"config_groups": {"a": {"weights": {"block_structure": [96, 96]}},
    "b": {"weights": {"group_size": 64}}}}}' >blocks/config.json
ckpt convert -q --dequantize blocks/model.safetensors out.safetensors; echo $?
# Quantized tensors of torch hold their scales; a cast leaves them. These digests are those that torch gives; packed ones are refused.
eco=t215/eco/torchao # tensors of torchao are subclasses
for file in t26/quant_per_tensor t26/quant_per_channel t14py2/quant t28/quant t215/quant_axes t26/quant_4x2 \
    ${eco}_Float8WeightOnlyConfig ${eco}_Int8WeightOnlyConfig ${eco}_Int8DynamicActivationInt8WeightConfig \
    ${eco}_IntxWeightOnlyConfig ${eco}_AffineQuantizedTensor; do
    ckpt convert -f --dequantize "corpus/torch/$file.pt" out.pt
    ckpt convert -qf --dequantize "corpus/torch/$file.pt" out.safetensors && ckpt diff out.pt out.safetensors && ckpt hash out.pt
done
for file in t28/quant ${eco}_AffineQuantizedTensor; do ckpt info corpus/torch/$file.pt | grep '^quantized'; done
ckpt convert -f --cast f16 corpus/torch/${eco}_IntxWeightOnlyConfig.pt out.pt; ckpt ls out.pt
ckpt convert -f --cast bf16 corpus/torch/t26/quant_per_channel.pt out.pt; ckpt ls out.pt
