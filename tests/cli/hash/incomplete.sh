# The digest of a file with contents that cannot be read, or that are objects, is marked, and the exit status is 2.
for f in torch/t26/meta.pt torch/t26/numpy.pt tensorflow/v2/variant.index keras/hdf5/filters_plugin.h5; do
    ckpt hash -t corpus/$f
    echo "exit $?"
done
ckpt hash -t -g '!objarr' corpus/torch/t26/numpy.pt
ckpt hash -t corpus/torch/t26/sparse_coo.pt
