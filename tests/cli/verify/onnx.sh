# Malformed ONNX: the tensor, its place in the file, what was found and what is allowed; values in other files.
for f in corpus/onnx/bad/*.onnx; do ckpt verify "$f" || echo "exit $?"; done 2>&1 | grep -v 'no checksums'
mkdir m
cp corpus/onnx/ext_one/* m
mv m/one.onnx.data data.bin
ln -s ../data.bin m/one.onnx.data
ckpt verify m/one.onnx
