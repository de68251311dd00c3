# What diff cannot read is not "the same": it is named, counted, and the exit status is 2, whatever else differs.
for f in torch/t26/meta.pt torch/t26/lazy.pt tensorflow/v2/variant.index keras/hdf5/filters_plugin.h5; do
    ckpt diff corpus/$f corpus/$f
    echo "exit $?"
done
ckpt diff --json corpus/torch/t26/meta.pt corpus/torch/t26/meta.pt
ckpt diff --md corpus/torch/t26/meta.pt corpus/torch/t26/meta.pt
ckpt diff -q corpus/torch/t26/meta.pt corpus/torch/t26/meta.pt
echo "exit $?"
# The names, dtypes and shapes can be compared, and what the hint leaves out.
ckpt diff --keys-only corpus/torch/t26/meta.pt corpus/torch/t26/meta.pt
ckpt diff -g '!list' corpus/tensorflow/v2/variant.index corpus/tensorflow/v2/variant.index
ckpt diff corpus/torch/t26/numpy.pt corpus/torch/t26/numpy.pt
ckpt ls --text corpus/torch/t26/meta.pt
