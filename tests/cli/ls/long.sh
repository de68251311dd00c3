# ls -l adds storage, offset, stride, ties, kind and device.
ckpt ls -l corpus/torch/t26/tied.pt
ckpt ls -l corpus/torch/t26/quant_per_channel.pt
ckpt ls -l corpus/torch/t26/view_of_big.pt
ckpt ls -l corpus/torch/t26/sparse_csr.pt
ckpt ls -l corpus/torch/t26/meta.pt
