# safetensors output is refused for tensors that it cannot hold, and the error names them.
for f in sparse_csr quant_per_channel meta dtype_complex128; do
    ckpt convert corpus/torch/t26/$f.pt $f.safetensors; echo $?
done
ls *.safetensors 2>/dev/null
ckpt convert data/train.pt; echo $?
ckpt convert a b -o c; echo $?
