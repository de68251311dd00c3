# Options, containers, lists, items of lists; exit 2 for what is not there.
f=data/train.pt
ckpt show $f epoch
ckpt show $f arch
ckpt show $f optimizer.param_groups.0
ckpt show $f "optimizer.param_groups.0.params[-2:]"
ckpt show --json $f optimizer.param_groups.0
ckpt show --json $f best_acc1
ckpt show $f fc.wieght
ckpt show $f module.fc.weight
