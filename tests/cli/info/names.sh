# info names averaged copies and the prefix that most keys share, and lists hyper-parameters before the state of a scheduler.
eco=corpus/torch/t215/eco
ckpt info $eco/lightning_2.6.6.ckpt $eco/timm_last.pth.tar
ckpt info --json $eco/lightning_2.6.6.ckpt $eco/timm_last.pth.tar data/train.pt | grep -o '"mappings":.*"dtypes"'
echo '-- an optimizer next to the weights is not counted with them; half of the weights are an averaged copy'
. "$TESTS/legacy.sh"
weights() { for n in $1; do printf 'V%s\n' "$n"; print_tensor 0; printf s; done; }
state() { printf '}Vexp_avg\n'; print_tensor 1; printf 'sVexp_avg_sq\n'; print_tensor 2; printf s; }
write_legacy adam.pt "}$(weights 'net.fc.weight net.fc.bias')Voptimizer
}Vstate
}I0
$(state)sI1
$(state)ssVparam_groups
(l(dVlr
F0.1
sassVepoch
I3
s"
write_legacy half.pt "}$(weights 'fc.weight fc.bias ema.fc.weight ema.fc.bias')"
write_legacy below.pt "}Vmodel
}$(weights 'a.weight b.weight c.weight model_ema.aweight model_ema.bweight')sVextra
}$(weights 'net.a.b net.a.c')s"
ckpt info adam.pt half.pt below.pt | grep -v -e ':load' -e ':unused'
ckpt info --json adam.pt half.pt below.pt | grep -o '"mappings":.*"dtypes"'
ckpt convert -q --root ema half.pt fixed.pt; ckpt ls fixed.pt
