# ONNX: initializers, sparse ones by their parts, tensors of nodes and subgraphs with their place, the model's values.
ckpt ls -l corpus/onnx/nested.onnx
ckpt info corpus/onnx/nested.onnx
ckpt ls --values corpus/onnx/no_init.onnx
ckpt ls -l corpus/onnx/ext_checksum/m.onnx
cat corpus/onnx/ext_one/one.onnx | ckpt ls -
