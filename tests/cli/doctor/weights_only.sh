# Why torch.load(weights_only=True) refuses, and numpy's names of either age.
for f in numpy python_objs whole_model state_dict_p0 torchscript_script; do
    ckpt doctor corpus/torch/t215/$f.pt
    echo $?
done
ckpt doctor corpus/torch/t113/numpy.pt
