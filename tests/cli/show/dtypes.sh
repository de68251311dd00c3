# show decodes each dtype.
for d in float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2 complex32 complex64 complex128 bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 bits8 bits16; do
    ckpt show --exact corpus/torch/t215/dtype_$d.pt t
    ckpt show --json corpus/torch/t215/dtype_$d.pt t
done
