# show prints the components of composite tensors and the names of opaque objects, and constructs none of them.
ckpt show corpus/torch/t26/sparse_csr.pt s
ckpt show corpus/torch/t26/python_objs.pt opaque
ckpt show corpus/torch/t26/conj.pt conj
ckpt show corpus/torch/t26/neg.pt
ckpt show corpus/torch/t26/quant_4x2.pt q
