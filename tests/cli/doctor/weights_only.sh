# doctor gives the reason for which torch.load(weights_only=True) refuses a file, also for the module names of numpy 1
# and of numpy 2.
for f in numpy python_objs whole_model state_dict_p0 torchscript_script; do
    ckpt doctor corpus/torch/t215/$f.pt
    echo $?
done
ckpt doctor corpus/torch/t113/numpy.pt
