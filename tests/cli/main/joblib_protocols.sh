# joblib.dump(x, f, protocol=0) and 1: the wrapper of an array is made by copy_reg._reconstructor, and nothing but the
# name of its class tells the file from text
wrapper() {
    printf 'ccopy_reg\n_reconstructor\n(cjoblib.numpy_pickle\nNumpyArrayWrapper\nc__builtin__\nobject\nNtR'
}
{
    printf '(dVa\n'; wrapper
    printf '(dVsubclass\ncnumpy\nndarray\nsVshape\n(I2\nI3\ntsVorder\nVC\nsVdtype\ncnumpy\ndtype\n(Vf4\nI00\nI01\ntR'
    printf '(I3\nV<\nNNNI-1\nI-1\nI0\ntbsVallow_mmap\nI01\nsVnumpy_array_alignment_bytes\nI3\nsb'
    printf '\3\377\377\377\0\0\200?\0\0\0@\0\0@@\0\0\200@\0\0\240@\0\0\300@sVn\nF1.5\ns.'
} >0.joblib
{
    printf '}(X\1\0\0\0a'; wrapper
    printf '}(X\10\0\0\0subclasscnumpy\nndarray\nX\5\0\0\0shape(K\2K\3tX\5\0\0\0orderX\1\0\0\0FX\5\0\0\0dtypecnumpy\ndtype\n'
    printf '(X\2\0\0\0i1K\0K\1tR(K\3X\1\0\0\0|NNNJ\377\377\377\377J\377\377\377\377K\0tbub\1\2\3\4\5\6X\1\0\0\0nG?\370\0\0\0\0\0\0u.'
} >1.joblib
for f in 0 1; do
    ckpt ls --values $f.joblib
    ckpt show $f.joblib a
    gzip -n $f.joblib
    ckpt ls -q $f.joblib.gz
done
printf '(see\ncjoblib.numpy_pickle\nand others)\n' >text
ckpt ls text
