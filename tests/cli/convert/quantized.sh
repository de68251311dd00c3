# --cast leaves quantized weights and their scales as they are, says so, and refuses with --strict; `info` names the scheme.
# write FILE NAME:DTYPE:SHAPE:BYTES … - makes a safetensors file whose tensors have zeros.
write() {
    file=$1 header= end=0
    shift
    for tensor; do
        name=${tensor%%|*} tensor=${tensor#*|}
        dtype=${tensor%%|*} tensor=${tensor#*|}
        shape=${tensor%%|*} bytes=${tensor#*|}
        header="$header${header:+,}\"$name\":{\"dtype\":\"$dtype\",\"shape\":[$shape],\"data_offsets\":[$end,$((end + bytes))]}"
        end=$((end + bytes))
    done
    header="{$header}"
    {
        printf "\\$(printf %03o $((${#header} % 256)))\\$(printf %03o $((${#header} / 256)))\\0\\0\\0\\0\\0\\0%s" "$header"
        head -c "$end" /dev/zero
    } >"$file"
}
# cast FILE - prints the scheme, what a cast says, and what it changed.
cast() {
    ckpt info "$1" | grep '^quantized'
    ckpt convert -f --cast bf16 "$1" out.safetensors
    ckpt ls --tsv "$1" >before; ckpt ls --tsv out.safetensors | diff before - | grep "^>" | cut -f 1-3
    ckpt convert -f --strict --cast bf16 "$1" strict.safetensors >strict 2>&1; echo "strict: $?"
}
norm='norm.weight|F32|2|8'
write comfy.safetensors "$norm" 'a.weight|F8_E4M3|2,2|4' 'a.scale_weight|F32||4' 'a.scale_input|F32||4' 'scaled_fp8|F8_E4M3|0|0'
write comfy2.safetensors "$norm" 'a.weight|F8_E4M3|2,2|4' 'a.weight_scale|F32||4' 'a.comfy_quant|U8|2|2'
write ct.safetensors "$norm" 'a.weight|F8_E4M3|2,2|4' 'a.weight_scale|F32|2,1|8' 'a.input_scale|F32|1|4' 'k_scale|F32|1|4'
write int8.safetensors "$norm" 'a.weight|I8|2,2|4' 'a.weight_scale|F32|2,1|8'
write pack.safetensors "$norm" 'a.weight_packed|I32|2,1|8' 'a.weight_scale|F32|2,1|8' 'a.weight_shape|I64|2|16'
write nvfp4.safetensors "$norm" 'a.weight_packed|U8|2,8|16' 'a.weight_scale|F8_E4M3|2,1|2' 'a.weight_global_scale|F32|1|4'
write modelopt.safetensors "$norm" 'a.weight|U8|2,8|16' 'a.weight_scale|F8_E4M3|2,1|2' 'a.weight_scale_2|F32||4'
write deepseek.safetensors "$norm" 'a.weight|F8_E4M3|2,2|4' 'a.weight_scale_inv|F32|1,1|4'
write gptq.safetensors "$norm" 'a.qweight|I32|1,2|8' 'a.qzeros|I32|1,1|4' 'a.scales|F16|1,2|4' 'a.g_idx|I32|8|32'
write awq.safetensors "$norm" 'a.qweight|I32|2,1|8' 'a.qzeros|I32|1,1|4' 'a.scales|F16|1,8|16'
write bnb.safetensors "$norm" 'a.weight|U8|2,1|2' 'a.weight.absmax|F32|1|4' 'a.weight.quant_map|F32|16|64'
write bnb_storage.safetensors "$norm" 'a.weight|BF16|1,1|2' 'a.weight.absmax|F32|1|4' 'a.weight.quant_map|F32|16|64'
write bnb8.safetensors "$norm" 'a.weight|I8|2,2|4' 'a.SCB|F32|2|8' 'a.weight_format|U8||1'
write mlx.safetensors "$norm" 'a.weight|U32|2,1|8' 'a.scales|F16|2,1|4' 'a.biases|F16|2,1|4'
write torchao.safetensors "$norm" 'a._weight_qdata|F8_E4M3|2,2|4' 'a._weight_scale|F32|2,1|8'
write gptoss.safetensors "$norm" 'a.gate_up_proj_blocks|U8|1,2,1,16|32' 'a.gate_up_proj_scales|U8|1,2,1|2'
write unknown.safetensors "$norm" 'a.weight|F8_E5M2|2,2|4' 'a.my_scale_of_rows|F32|2|8' 'b.weight|F8_E5M2|2,2|4'
for f in comfy comfy2 ct int8 pack nvfp4 modelopt deepseek gptq awq bnb bnb_storage bnb8 mlx torchao gptoss unknown; do
    echo "== $f"
    cast $f.safetensors
done 2>&1
# A cast of one of these tensors by its full name is refused; a float8 tensor without scales is cast.
ckpt convert -f --cast 'a.weight=bf16' comfy.safetensors out.safetensors; echo $?
ckpt convert -f --cast 'a.scales=f32' gptq.safetensors out.safetensors; echo $?
write plain.safetensors "$norm" 'a.weight|F8_E4M3|2,2|4' 'layer_scale|F32|2|8'
cast plain.safetensors
# In one shard of a set, fp8 and scales are left, too: the other half of them may be in another shard.
mkdir set
write set/m-00001-of-00002.safetensors "$norm" 'a.weight|F8_E4M3|2,2|4' 'b.weight_scale_inv|F32|1,1|4'
write set/m-00002-of-00002.safetensors 'a.weight_scale_inv|F32|1,1|4' 'b.weight|F8_E4M3|2,2|4'
cast set/m-00001-of-00002.safetensors
cast set
# An index says which names are in other shards, also if the names of the files do not show that they are shards.
mkdir qwen
write qwen/layers-0.safetensors "$norm" 'a.weight|F8_E4M3|2,2|4' 'b.scales|F16|1,2|4' 'c.scale|F32|2|8' 'd.weight|F8_E4M3|2,2|4'
write qwen/outside.safetensors 'a.weight_scale_inv|F32|1,1|4' 'b.qweight|I32|1,2|8' 'b.qzeros|I32|1,1|4'
printf '{"weight_map":{%s,%s,%s,%s,%s,%s,%s,%s}}' '"norm.weight":"layers-0.safetensors"' \
    '"a.weight":"layers-0.safetensors"' '"b.scales":"layers-0.safetensors"' '"c.scale":"layers-0.safetensors"' \
    '"d.weight":"layers-0.safetensors"' '"a.weight_scale_inv":"outside.safetensors"' \
    '"b.qweight":"outside.safetensors"' '"b.qzeros":"outside.safetensors"' >qwen/model.safetensors.index.json
cast qwen/layers-0.safetensors
cast qwen/outside.safetensors
# Such an index may be called otherwise, and have paths of files.
sed 's|:"|:"./|g' qwen/model.safetensors.index.json >qwen/model.safetensors.index.fp16.json
rm qwen/model.safetensors.index.json
cast qwen/layers-0.safetensors
ckpt convert -f --dequantize set/m-00001-of-00002.safetensors out.safetensors; echo $?
ckpt info --json gptq.safetensors
