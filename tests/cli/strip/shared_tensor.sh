# --keep and --drop reach a tensor under each of its names, also if another of them is not selected
file=corpus/torch/t26/tied.pt
ckpt add x. --keep b $file -o added.pt; ckpt ls added.pt
ckpt add x. --drop b $file -fo added.pt; ckpt ls added.pt
ckpt rename -s 'b=>y' --keep b $file -o renamed.pt; ckpt ls renamed.pt
ckpt add x. $file -o prefixed.pt && ckpt strip x. --keep 'x.b' prefixed.pt -o kept.pt; ckpt ls kept.pt
ckpt strip x. --drop 'x.b' prefixed.pt -o dropped.pt; ckpt ls dropped.pt
