# In formats that scan does not parse, it searches for code of Keras in HDF5, paths in ONNX, and operations of TensorFlow.
hdf() { printf '\211HDF\r\n\032\n'; }
{ hdf; head -c 100 /dev/zero; printf '{"class_name": "Sequential", "config": [{"class_name" :\n"Lambda", "config": {}}]}'; } >lambda.h5
{ hdf; head -c 100 /dev/zero; printf '{"class_name": "Sequential", "config": [{"class_name": "Dense"}, {"name": "Lambda"}]}'; } >dense.h5
{ hdf; head -c 262126 /dev/zero; printf '{"class_name": "__lambda__"}'; } >window.h5
ckpt scan lambda.h5 dense.h5 window.h5
# onnx PATH - a model whose one tensor has its values in the file PATH
onnx()
{
    n=${#1}
    printf '\010\010\022\007pytorch\072'"\\$(printf %03o $((n + 20)))"'\052'"\\$(printf %03o $((n + 18)))"'\020\001\160\001\152'
    printf "\\$(printf %03o $((n + 12)))"'\012\010location\022'"\\$(printf %03o "$n")%s" "$1"
}
onnx weights.bin >inside.onnx
onnx a..b/..c/d.. >dots.onnx
onnx ../weights.bin >above.onnx
onnx a/../../b >within.onnx
onnx 'a\..' >backslash.onnx
onnx /etc/passwd >absolute.onnx
onnx 'c:\weights.bin' >drive.onnx
ckpt scan inside.onnx dots.onnx above.onnx within.onnx backslash.onnx absolute.onnx drive.onnx
printf '\010\001\022\033\022\031\012\013\012\001a\022\006PyFunc\012\012\012\001b\022\010ReadFile' >saved_model.pb
ckpt scan saved_model.pb
