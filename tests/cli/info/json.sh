# The schema.
ckpt info --json data/train.pt corpus/torch/t26/whole_model.pt
