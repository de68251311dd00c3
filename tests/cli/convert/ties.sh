# --ties decides what becomes of tensors that share bytes: one name and a record of the others, copies, or an error.
f=corpus/torch/t215/tied_lm_head.pt; [ -e $f ] || f=corpus/torch/t26/tied.pt
ckpt convert $f a.safetensors; ckpt ls a.safetensors
ckpt convert --ties copy $f b.safetensors; ckpt ls b.safetensors
ckpt convert --ties error $f c.safetensors; echo $?
ckpt convert --ties maybe $f c.safetensors; echo $?
ckpt convert --json -f $f a.safetensors
