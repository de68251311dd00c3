# ls lists ONNX initializers, components of sparse ones, tensors of nodes and subgraphs, and the model's values.
ckpt ls -l corpus/onnx/nested.onnx
ckpt info corpus/onnx/nested.onnx
ckpt ls --values corpus/onnx/no_init.onnx
ckpt ls -l corpus/onnx/ext_checksum/m.onnx
cat corpus/onnx/ext_one/one.onnx | ckpt ls -
