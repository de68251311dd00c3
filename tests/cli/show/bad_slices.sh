# Told with the dimension and what it has.
f=data/train.pt w=state_dict.module.fc.weight
for s in "[10]" "[0,0,0]" "[::0]" "[a]" "[1;2]" "[-11]"; do
    ckpt show $f "$w$s"
done
ckpt show $f "epoch[0]"
