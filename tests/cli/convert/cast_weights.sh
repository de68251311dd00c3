# --cast without a glob converts the weights and their averaged copies, but not the state of an optimizer or its step.
f=corpus/torch/t26/general_checkpoint.tar
ckpt convert --cast bf16 $f a.pt; ckpt ls --tsv a.pt | cut -f 1,2 | grep -v '^model_state_dict.*bfloat16'
ckpt show a.pt optimizer_state_dict.state.0.step
ckpt convert --cast bf16 --cast optimizer_state_dict=f16 $f b.pt; ckpt ls --tsv b.pt | cut -f 1,2 | grep 'state.0\|loss'
ckpt convert --cast bf16 corpus/torch/t215/eco/timm_last.pth.tar c.pt; ckpt ls --tsv c.pt | cut -f 1,2
ckpt convert -q --cast bf16 $f d.pt; cmp a.pt d.pt
