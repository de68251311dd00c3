# Of whole modules only the state dicts are compared: a notice says so, because "same" is not true of their settings.
for f in t27/whole_model.pt t14/whole_model.pt; do
    ckpt diff corpus/torch/$f corpus/torch/$f
done
# the same file with another default of training
LC_ALL=C sed 's/trainingq\(.\)\x88/trainingq\1\x89/' corpus/torch/t27/whole_model_legacy.pt >eval.pt
cmp -s corpus/torch/t27/whole_model_legacy.pt eval.pt || ckpt diff corpus/torch/t27/whole_model_legacy.pt eval.pt
# no notice about state dicts, about tensors alone, or with -q
ckpt diff data/train.pt data/train.pt
ckpt diff --tensors-only corpus/torch/t27/whole_model.pt corpus/torch/t27/whole_model.pt
ckpt diff corpus/torch/t27/whole_model.pt corpus/torch/t27/state_dict.pt | tail -n 1
ckpt diff -q corpus/torch/t27/whole_model.pt corpus/torch/t27/whole_model.pt
