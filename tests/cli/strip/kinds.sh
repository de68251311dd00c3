# A kind of file that strip cannot write becomes a torch zip, and a notice reports what is not in it.
for f in whole_model.pt state_dict_legacy.pt general_checkpoint.tar torchscript_script.pt; do
    ckpt add p. corpus/torch/t26/$f -o out.pt -f
    ckpt ls out.pt | head -n 1
done
