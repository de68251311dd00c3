# --order=file lists tensors in the order of the file.
ckpt ls --order=file corpus/torch/t26/state_dict.pt
ckpt ls --json --order file corpus/torch/t26/state_dict.pt | grep -o "\"name\":\"[^\"]*\"" | head -n 2
