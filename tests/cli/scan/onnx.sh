# scan finds operations of ONNX that call Python, and external files outside of the folder, anywhere in the model.
printf '\010\010\072\045\012\031\022\001y\042\010PythonOp\072\012com.custom\052\010\102\001w\020\002\112\001x' >python.onnx
head -c 35 python.onnx >short.onnx
ckpt scan corpus/onnx/nested.onnx corpus/onnx/bad/ext_*.onnx corpus/onnx/bad/trunc.onnx python.onnx short.onnx
printf '\010\010\072\012\052\010\102\001\033\020\002\112\001x' >name.onnx
ckpt scan -q name.onnx
ckpt scan --json corpus/onnx/ext_one/one.onnx | head -c 400
echo
# context PATH - prints a model with an EPContext that names the compiled model PATH, which has 8 characters.
context()
{
    printf '\010\010\072\063\012\061\042\011EPContext\072\003com\052\037\012\020ep_cache_context\042\010%s\240\001\003' "$1"
}
context ../a.bin >above.onnx
context ./aa.bin >inside.onnx
ckpt scan above.onnx inside.onnx
