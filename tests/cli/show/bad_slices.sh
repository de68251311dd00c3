# For an invalid slice the error names the dimension and its size.
f=data/train.pt w=state_dict.module.fc.weight
for s in "[10]" "[0,0,0]" "[::0]" "[a]" "[1;2]" "[-11]"; do
    ckpt show $f "$w$s"
done
ckpt show $f "epoch[0]"
