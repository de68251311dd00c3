# scan accepts files of torch that weights_only loads; of whole modules, it names the classes that torch.nn lacks.
torch=corpus/torch/t26
ckpt scan $torch/tied.pt $torch/state_dict_legacy.pt $torch/whole_model.pt $torch/whole_model_custom.pt $torch/torchscript_script.pt $torch/numpy.pt
echo $?
find corpus/torch/t26 corpus/torch/t113 -type f | sort >files
xargs ckpt info --json <files 2>/dev/null | grep '"weights_only":{"ok":true' | sed 's/.*"file":"\([^"]*\)".*/\1/' >fine
[ "$(wc -l <fine)" -gt 100 ] || wc -l fine
xargs ckpt scan -q <fine
echo $?
