# Refused by name: what a flat file of tensors cannot hold.
for f in sparse_csr quant_per_channel meta dtype_complex128; do
    ckpt convert corpus/torch/t26/$f.pt $f.safetensors; echo $?
done
ls *.safetensors 2>/dev/null
ckpt convert data/train.pt; echo $?
ckpt convert a b -o c; echo $?
