# What is not a tensor, beside what is.
ckpt ls --values -g 'e*' -g 'scheduler.*' -g 'arch' data/train.pt
