# The types of ml_dtypes, which numpy saves without their names: bfloat16 and float8_e5m2 are known, --as names others.
command -v unzip >/dev/null || { echo 'no unzip here'; exit 77; }
np=corpus/numpy/np2
ckpt ls $np/ml.npz $np/ml_bfloat16.npy $np/ml_float8_e5m2.npy $np/ml_float8_e4m3fn.npy $np/void.npy
for t in float8_e4m3fn float8_e5m2fnuz float8_e8m0fnu int4 uint2 float4_e2m1fn; do
    ckpt show --as V1=$t $np/ml_$t.npy ''
done
ckpt show --as V2=int16,V1=int4 $np/void.npy ''
ckpt stat --as V1=float8_e4m3fn $np/ml_float8_e4m3fn.npy
ckpt ls --as V1=int8 $np/ml.npz # does not apply to two bytes
# the values are in formats that have the type
ckpt convert -q $np/ml.npz -o b.safetensors && ckpt ls b.safetensors && ckpt diff $np/ml.npz b.safetensors
ckpt convert -q --as V1=float8_e4m3fn $np/ml_float8_e4m3fn.npy -o f8.pt && ckpt ls f8.pt
ckpt convert -q --cast float32 $np/ml.npz -o f.npz && ckpt show f.npz h
# an output of numpy has the codes that its input had; from other formats there is no such output
ckpt rename -q -s 'h=>k' $np/ml.npz -o k.npz && unzip -p k.npz k.npy | head -c 60 | tail -c 50 && echo
for t in bfloat16 float8_e5m2 float8_e4m3fn; do
    ckpt convert -q --as V1=float8_e4m3fn $np/ml_$t.npy -o same.npy -f && cmp same.npy $np/ml_$t.npy && echo same
done
ckpt convert b.safetensors -o b.npz
for bad in V2 V2= V2=float V3=int8 V2=int8 'V1=int4,' ',V1=int4' W1=int4 V=int4 V2=bfloat16,V1=q8_0; do
    ckpt ls --as "$bad" $np/void.npy
done
# several are given at once or one by one, by the names that --cast has, but only one for each size
ckpt ls --as V1=int4 --as V2=bf16 $np/void.npy
ckpt ls --as V2=F16 --as V1=int4 $np/ml_int4.npy
ckpt ls --as V1=int4 --as V1=uint8 $np/ml_int4.npy; echo $?
# what a format lacks without it is named by the hint
ckpt convert $np/void.npy -o v.pt; echo $?
ckpt convert $np/ml_int4.npy -o v.safetensors; echo $?
# one array of objects does not hide the others
ckpt ls $np/object.npz
ckpt verify $np/object.npz
ckpt convert -q --drop o $np/object.npz -o a.npz && ckpt ls a.npz
ckpt salvage -q $np/object.npz -o s.npz; echo $?; ckpt ls s.npz
