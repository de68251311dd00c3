# What has no average is refused with what differs or what to do; nothing is written.
. "$TESTS/average_input.sh"
add w F32 2 $one $two && add n I64 '' 0000000000000001 && add only.a F32 1 $one && write_file a.safetensors
add w F32 1,2 $one $two && add n I64 '' 0000000000000002 && add only.b F32 1 $one && write_file b.safetensors
add w F32 2 $two $two && add n I64 '' 0000000000000002 && add only.a F32 1 $one && write_file c.safetensors
try()
{
    echo "# $*" >&2
    ckpt average "$@" -o out.safetensors
    code=$?
    [ $code = 2 ] && [ ! -e out.safetensors ] || echo "exit $code"
}
try a.safetensors b.safetensors
try a.safetensors b.safetensors --json | tr '{' '\n'
try c.safetensors b.safetensors --base a.safetensors
try a.safetensors c.safetensors --ints equal
try a.safetensors data/train.pt
try a.safetensors data/train.pt --root state_dict
try a.safetensors none.safetensors
try a.safetensors
try --weights 1 a.safetensors c.safetensors
try --weights 1,2,3 a.safetensors c.safetensors
try --weights 1,-1 a.safetensors c.safetensors
try --weights 1,nan a.safetensors c.safetensors
try --weights inf,1 a.safetensors c.safetensors
try --weights 1,1e999 a.safetensors c.safetensors
try --weights 1,x a.safetensors c.safetensors
try --weights 1, a.safetensors c.safetensors
try --weights '' a.safetensors c.safetensors
try --method tie a.safetensors c.safetensors
try --method ties a.safetensors c.safetensors
try --method ties --base a.safetensors c.safetensors --density 2
try --method ties --base a.safetensors c.safetensors --density 0.5,0.5
try --method slerp a.safetensors c.safetensors c.safetensors
try --method slerp a.safetensors c.safetensors --base a.safetensors
try --method slerp a.safetensors c.safetensors --t 2
try --method slerp a.safetensors c.safetensors --t x
try --method slerp a.safetensors c.safetensors --weights 1,2
try a.safetensors c.safetensors --t 0.5
try a.safetensors c.safetensors --density 0.5
try a.safetensors c.safetensors --lambda 0.5
try --base a.safetensors c.safetensors --lambda nan
try a.safetensors c.safetensors --normalize --no-normalize
ckpt average a.safetensors c.safetensors
ckpt average a.safetensors c.safetensors --part 0/2 -n
add w C64 1 $one$two && write_file complex.safetensors
try --method slerp complex.safetensors complex.safetensors
add w F8_E8M0 1 7f && write_file scale.safetensors
try scale.safetensors scale.safetensors
for name in gguf/bigendian_q.gguf torch/t26/nested.pt quantized/gptq4_v1_float16_act/model.safetensors; do try corpus/$name corpus/$name; done
