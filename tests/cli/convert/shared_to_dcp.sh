# A tensor that is one object under two keys has two rows: --keep and --cast of the second apply to that one.
ckpt convert -q --keep b --keep c corpus/torch/t26/tied.pt --to dcp kept
ckpt ls kept
ckpt convert -q --cast b=f16 corpus/torch/t26/tied.pt --to dcp cast
ckpt ls -g a -g b cast
