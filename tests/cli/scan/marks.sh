# In formats that scan does not parse, it searches for code of Keras in HDF5, paths in ONNX, and operations of TensorFlow.
hdf() { printf '\211HDF\r\n\032\n'; }
{ hdf; head -c 100 /dev/zero; printf '{"class_name": "Sequential", "config": [{"class_name" :\n"Lambda", "config": {}}]}'; } >lambda.h5
{ hdf; head -c 100 /dev/zero; printf '{"class_name": "Sequential", "config": [{"class_name": "Dense"}, {"name": "Lambda"}]}'; } >dense.h5
{ hdf; head -c 262126 /dev/zero; printf '{"class_name": "__lambda__"}'; } >window.h5
ckpt scan lambda.h5 dense.h5 window.h5
# byte NUMBER - prints a byte
byte() { printf "\\$(printf %03o "$1")"; }
# onnx PATH - prints a ModelProto whose one tensor has its values in the file PATH. Each nested message begins with its
# length, which is that of PATH plus a constant.
onnx()
{
    n=${#1}
    printf '\010\010\022\007pytorch\072'; byte $((n + 20)) # graph
    printf '\052'; byte $((n + 18))                         # initializer
    printf '\020\001\160\001\152'; byte $((n + 12))         # external_data
    printf '\012\010location\022'; byte "$n"
    printf %s "$1"
}
onnx weights.bin >inside.onnx
onnx a..b/..c/d.. >dots.onnx
onnx ../weights.bin >above.onnx
onnx a/../../b >within.onnx
onnx 'a\..' >backslash.onnx
onnx /etc/passwd >absolute.onnx
onnx 'c:\weights.bin' >drive.onnx
onnx '*/_ORT_MEM_ADDR_/*' >memory.onnx
ckpt scan inside.onnx dots.onnx above.onnx within.onnx backslash.onnx absolute.onnx drive.onnx memory.onnx
printf '\010\001\022\033\022\031\012\013\012\001a\022\006PyFunc\012\012\012\001b\022\010ReadFile' >saved_model.pb
ckpt scan saved_model.pb
