# Without a path: what is at the top.
ckpt show data/train.pt
ckpt show corpus/torch/t26/tensor_alone.pt
ckpt show corpus/torch/t26/python_objs.pt
