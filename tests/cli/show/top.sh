# show without a path prints the top level of the file.
ckpt show data/train.pt
ckpt show corpus/torch/t26/tensor_alone.pt
ckpt show corpus/torch/t26/python_objs.pt
