# -i makes the globs of hash and verify ignore case; for a glob that matches nothing, the error suggests the nearest names.
f=data/train.pt
ckpt hash -i -g '*FC.Bias' $f; ckpt hash -i -g '*.[F]c.*' -g '!*.BIAS' $f
ckpt hash -g '*FC*' $f; echo $?
ckpt hash -g 'fc' $f; echo $?
ckpt verify -i -g '*FC*' $f; ckpt verify -ig '*FC.WEIGHT' --root auto $f
ckpt verify -g '*FC*' $f; echo $?
ckpt verify -g 'fc' --root state_dict $f; echo $?
ckpt verify -g 'fc' - <$f; echo $?
