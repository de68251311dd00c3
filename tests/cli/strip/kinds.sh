# What cannot be written as it is becomes a torch zip, and stderr says what is in it.
for f in whole_model.pt state_dict_legacy.pt general_checkpoint.tar torchscript_script.pt; do
    ckpt add p. corpus/torch/t26/$f -o out.pt -f
    ckpt ls out.pt | head -n 1
done
