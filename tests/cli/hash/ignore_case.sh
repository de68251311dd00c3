# -i lets globs of hash and verify match either case; a pattern that matches nothing is named with what is nearest.
f=data/train.pt
ckpt hash -i -g '*FC.Bias' $f; ckpt hash -i -g '*.[F]c.*' -g '!*.BIAS' $f
ckpt hash -g '*FC*' $f; echo $?
ckpt hash -g 'fc' $f; echo $?
ckpt verify -i -g '*FC*' $f; ckpt verify -ig '*FC.WEIGHT' --root auto $f
ckpt verify -g '*FC*' $f; echo $?
ckpt verify -g 'fc' --root state_dict $f; echo $?
ckpt verify -g 'fc' - <$f; echo $?
