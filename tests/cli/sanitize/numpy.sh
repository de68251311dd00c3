# sanitize writes to .npz types that safetensors lacks (texts, dates, complex numbers); records are left out.
for a in str_U str_S datetime dt_complex128 void struct; do
    ckpt sanitize -q corpus/numpy/np2/$a.npy -o $a.npz && ckpt ls $a.npz
done
ckpt sanitize -q corpus/numpy/np2/dt_complex128.npy -o c.safetensors
# A type that safetensors has and numpy lacks is refused with a hint, not left out.
ckpt convert -q corpus/torch/t215/dtype_bfloat16.pt bf16.safetensors
ckpt sanitize bf16.safetensors -o bf16.npz
