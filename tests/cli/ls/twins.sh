# Two tensors with the same joined name are both listed, with a notice; for a file without tensors there is a notice, too.
# a numpy.float32 scalar (numpy.core.multiarray.scalar) of 1.0
float32_one='cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(U\002f4K\000K\001tR(K\003U\001<NNNJ\377\377\377\377J\377\377\377\377K\000tbC\004\000\000\200?tR'
# {'a': {'b': 1.0}, 'a.b': 1.0}
printf '\200\003}(X\001\000\000\000a}X\001\000\000\000b'"$float32_one"'sX\003\000\000\000a.b'"$float32_one"'u.' >twins.pkl
ckpt ls twins.pkl
ckpt convert twins.pkl twins.safetensors
echo "exit $?"
ckpt ls corpus/torch/t215/ints.pt
