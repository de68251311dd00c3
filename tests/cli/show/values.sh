# show prints values, containers, lists and items of lists, and exits 2 for a path that does not exist.
f=data/train.pt
ckpt show $f epoch
ckpt show $f arch
ckpt show $f optimizer.param_groups.0
ckpt show $f "optimizer.param_groups.0.params[-2:]"
ckpt show --json $f optimizer.param_groups.0
ckpt show --json $f best_acc1
# Lists are whole in JSON, also within lists; one that contains itself ends at some depth.
ckpt show --json corpus/torch/t215/tuple_nested.pt
ckpt show --json corpus/torch/t26/recursive.pt | head -c 200
# A path that does not exist.
ckpt show $f fc.wieght
ckpt show $f module.fc.weight
