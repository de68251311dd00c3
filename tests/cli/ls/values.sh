# ls --values lists values that are not tensors together with the tensors.
ckpt ls --values -g 'e*' -g 'scheduler.*' -g 'arch' data/train.pt
