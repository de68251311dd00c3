# scan accepts files of torch that weights_only loads; for whole modules it names the classes, and TorchScript is code.
c=corpus/torch/t26
ckpt scan $c/tied.pt $c/state_dict_legacy.pt $c/whole_model.pt $c/torchscript_script.pt $c/numpy.pt
echo $?
find corpus/torch/t26 corpus/torch/t113 -type f | sort >files
xargs ckpt info --json <files 2>/dev/null | grep '"weights_only":{"ok":true' | sed 's/.*"file":"\([^"]*\)".*/\1/' >fine
[ "$(wc -l <fine)" -gt 100 ] || wc -l fine
xargs ckpt scan -q <fine
echo $?
