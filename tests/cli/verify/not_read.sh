# verify and doctor say how many tensors they cannot read; this is no fault of the file.
for f in torch/t26/meta.pt torch/t26/lazy.pt tensorflow/v2/variant.index; do
    ckpt verify corpus/$f
    ckpt doctor corpus/$f
done
ckpt verify --json corpus/torch/t26/meta.pt
ckpt doctor --json corpus/torch/t26/meta.pt
