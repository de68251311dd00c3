# info describes whole modules, TorchScript, a tensor alone, numpy scalars, ties and views.
for f in torch/t26/whole_model.pt torch/t26/torchscript_script.pt torch/t26/tensor_alone.pt torch/t26/numpy.pt torch/t26/tied.pt torch/t26/view_of_big.pt; do
    ckpt info corpus/$f
done
