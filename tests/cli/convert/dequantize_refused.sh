# Schemes whose numbers are not dequantized: a cast leaves their tensors alone, --dequantize names the scheme and the reason.
write_file() # NAME BYTES JSON
{
    { printf '\0\2\0\0\0\0\0\0%-512s' "$3"; head -c "$2" /dev/zero; } >"$1.safetensors"
}
write_file eetq 44 '{"l.weight":{"dtype":"I8","shape":[8,2],"data_offsets":[0,16]},"l.weight_scales":{"dtype":"F16",
"shape":[2],"data_offsets":[16,20]},"l.bias":{"dtype":"F16","shape":[2],"data_offsets":[20,24]},
"norm.weight":{"dtype":"F16","shape":[10],"data_offsets":[24,44]}}'
write_file aqlm 84 '{"l.codes":{"dtype":"I8","shape":[2,2,1],"data_offsets":[0,4]},"l.codebooks":{"dtype":"F16",
"shape":[1,4,1,8],"data_offsets":[4,68]},"l.scales":{"dtype":"F16","shape":[2,1,1,1],"data_offsets":[68,72]},
"norm.weight":{"dtype":"F16","shape":[6],"data_offsets":[72,84]}}'
write_file vptq 100 '{"l.indices":{"dtype":"I32","shape":[1,2,1],"data_offsets":[0,8]},"l.centroids.weight":{"dtype":"F16",
"shape":[1,16],"data_offsets":[8,40]},"l.res_centroids.weight":{"dtype":"F16","shape":[1,16],"data_offsets":[40,72]},
"l.weight_scale":{"dtype":"F16","shape":[4],"data_offsets":[72,80]},"l.weight_bias":{"dtype":"F16","shape":[4],
"data_offsets":[80,88]},"norm.weight":{"dtype":"F16","shape":[6],"data_offsets":[88,100]}}'
write_file hqq 32 '{"l.W_q":{"dtype":"U8","shape":[8,2],"data_offsets":[0,16]},"l.meta.scale":{"dtype":"F16","shape":[1,2],
"data_offsets":[16,20]},"l.meta.zero":{"dtype":"F16","shape":[1,2],"data_offsets":[20,24]},"norm.weight":{"dtype":"F16",
"shape":[4],"data_offsets":[24,32]}}'
# Older versions of hqq quantized scales and zeros, too, and described these by dicts of their own.
write_hqq() # NAME SCALE_NAME OTHER_NAME
{
    write_file "$1" 26 "{\"l.W_q\":{\"dtype\":\"U8\",\"shape\":[8,2],\"data_offsets\":[0,16]},\"l.$2\":{\"dtype\":\"U8\",
\"shape\":[1,2],\"data_offsets\":[16,18]},\"l.$3\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[18,20]},\"norm.weight\":{
\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[20,26]}}"
}
write_hqq hqq_meta_scale_q meta.scale_q meta.meta_scale.scale
write_hqq hqq_meta_zero_scale meta.zero_scale meta.meta_scale.scale
write_hqq hqq_meta_zero_q meta.zero_q meta.scale
write_hqq hqq_scale_q scale_q meta_scale.scale
write_hqq hqq_zero_q zero_q scale
write_hqq hqq_zero_scale zero_scale meta_zero.scale
for scheme in eetq aqlm vptq hqq hqq_meta_scale_q hqq_meta_zero_scale hqq_meta_zero_q hqq_scale_q hqq_zero_q hqq_zero_scale; do
    ckpt info $scheme.safetensors | grep ^quantized
    ckpt convert --cast bf16 $scheme.safetensors $scheme.pt; ckpt ls --tsv $scheme.pt | cut -f 1,2
    ckpt convert --strict --cast bf16 $scheme.safetensors strict.pt; echo $?
    ckpt convert --dequantize $scheme.safetensors out.pt; echo $?
done
ls out.pt
# A tensor of torchao that is packed for a kernel, in a pickle; one whose codes share bytes.
for class in Int4Tensor UintxTensor; do
    ckpt convert --dequantize corpus/torch/t215/eco/torchao_$class.pt out.pt; echo $?
    ckpt convert -qf --cast bf16 corpus/torch/t215/eco/torchao_$class.pt cast.pt; ckpt ls --tsv cast.pt | cut -f 1,2
done
# A scale may be in another shard than the weight.
scaled=corpus/quantized/ct_fp8_channel_bfloat16/model.safetensors
mkdir shards
ckpt convert -q --drop '*_scale' $scaled shards/model-00001-of-00002.safetensors
ckpt convert -q --keep '*_scale' $scaled shards/model-00002-of-00002.safetensors
echo '{"metadata": {}, "weight_map": {"l.weight": "model-00001-of-00002.safetensors",
    "l.weight_scale": "model-00002-of-00002.safetensors"}}' >shards/model.safetensors.index.json
ckpt convert --dequantize $scaled one.safetensors
for input in shards shards/model.safetensors.index.json; do
    ckpt convert -f --dequantize $input out.safetensors; cmp one.safetensors out.safetensors
    ckpt convert -qf --cast bf16 $input cast; ckpt ls cast
done
# ModelOpt nvfp4: code * (scale * scale_2), two of e2m1 in a byte, the first in its low bits.
{
    printf '\0\2\0\0\0\0\0\0%-512s' '{"l.weight":{"dtype":"U8","shape":[1,16],"data_offsets":[0,16]},"l.weight_scale":{
"dtype":"F8_E4M3","shape":[1,2],"data_offsets":[16,18]},"l.weight_scale_2":{"dtype":"F32","shape":[],"data_offsets":[18,22]},
"l.input_scale":{"dtype":"F32","shape":[],"data_offsets":[22,26]}}'
    printf '\020\062\124\166\230\272\334\376\020\062\124\166\230\272\334\376\070\100\0\0\0\077\0\0\200\077'
} >nvfp4.safetensors
ckpt convert --dequantize nvfp4.safetensors floats.safetensors; ckpt ls floats.safetensors; ckpt show --full floats.safetensors l.weight
