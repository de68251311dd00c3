# Parts are named, opaque objects are names, nothing is made of them.
ckpt show corpus/torch/t26/sparse_csr.pt s
ckpt show corpus/torch/t26/python_objs.pt opaque
ckpt show corpus/torch/t26/conj.pt conj
ckpt show corpus/torch/t26/neg.pt
ckpt show corpus/torch/t26/quant_4x2.pt q
