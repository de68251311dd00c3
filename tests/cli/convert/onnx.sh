# The tensors of ONNX, also those in external files, are converted; messages list the tensors that the output cannot hold.
ckpt convert corpus/onnx/ext_each/each.onnx w.safetensors
ckpt diff corpus/onnx/ext_one/one.onnx w.safetensors
ckpt convert corpus/onnx/nested.onnx n.pt
ckpt diff corpus/onnx/nested.onnx n.pt
ckpt convert corpus/onnx/dtypes_typed.onnx x.safetensors
ckpt stat corpus/onnx/dtypes_raw.onnx
head -c 10000 corpus/onnx/ext_one/one.onnx.data >one.onnx.data
cp corpus/onnx/ext_one/one.onnx .
ckpt salvage one.onnx -o s.pt
