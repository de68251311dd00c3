# optimum-quanto does not store the shape of a grouped weight: it is that of the bias, …
quanto=corpus/quantized/quanto_qint4_float16_16x256/model.safetensors
ckpt convert --dequantize $quanto whole.safetensors; ckpt ls whole.safetensors
# … or of config.json, if the module is one that transformers names; else it is refused.
ckpt convert -q --drop l.bias $quanto alone.safetensors
ckpt convert --dequantize alone.safetensors out.safetensors; echo $?
mkdir model; ckpt rename -q -s '^l=>model.q_proj' alone.safetensors -o model/model.safetensors
ckpt convert --dequantize model/model.safetensors out.safetensors; echo $?
echo '{"hidden_size": 256, "num_hidden_layers": 1}' >model/config.json
ckpt convert --dequantize model/model.safetensors out.safetensors; for f in whole out; do ckpt hash $f.safetensors | grep weight$ | cut -c 1-64; done; ckpt ls out.safetensors
echo '{"hidden_size": 96}' >model/config.json
ckpt convert --dequantize model/model.safetensors out2.safetensors; echo $?
ls out2.safetensors
# Two rows of 2 or 4 bits fill one row of bytes: quanto_qmap.json gives the bits. The second row is 7 and 1, or 1 and 0.
printf '\340\0\0\0\0\0\0\0%-224s' '{"l.weight._data._data":{"dtype":"U8","shape":[1,2],"data_offsets":[0,2]},
"l.weight._scale":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},"l.weight._shift":{"dtype":"I8","shape":[2,1],"data_offsets":[10,12]}}' >two.safetensors
printf '\165\020\0\0\200\077\0\0\200\077\0\0' >>two.safetensors
ckpt convert --dequantize two.safetensors out2.safetensors; echo $?
for bits in 4 2; do
    echo '{"l": {"weights": "qint'$bits'", "activations": "none"}}' >quanto_qmap.json
    ckpt convert -q --dequantize two.safetensors - | ckpt show - l.weight
done
