# An output whose suffix is of no format that ckpt writes is refused, as is an empty name.
ckpt convert corpus/torch/t26/tied.pt model.onnx
echo "exit $?"
ckpt convert corpus/torch/t26/tied.pt ''
echo "exit $?"
ckpt convert --to safetensors corpus/torch/t26/tied.pt model.onnx && ckpt ls model.onnx
ls
