# info --json prints a training checkpoint and a whole model as its schema describes.
ckpt info --json data/train.pt corpus/torch/t26/whole_model.pt
