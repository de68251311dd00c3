# Slices follow Python's rules for indices.
f=data/train.pt w=state_dict.module.fc.weight
for s in "[0]" "[-1,-1]" "[0:3,:2]" "[8:,::16]" "[::-4, -1]" "[3, ]" "[20:30]" "[:2, 3:0:-1]"; do
    ckpt show $f "$w$s"
done
