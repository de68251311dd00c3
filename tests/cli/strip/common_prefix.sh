# strip --auto leaves a prefix that may be a module, such as that of Lightning, and names it, as info does; if it removed
# something else, or if the prefix is that of a layer, it says nothing.
eco=corpus/torch/t215/eco
ckpt strip --auto $eco/lightning_2.6.6.ckpt -o out.ckpt
ckpt info $eco/lightning_2.6.6.ckpt | grep '^prefix'
ckpt strip net. $eco/lightning_2.6.6.ckpt -o net.ckpt
ckpt strip --auto net.ckpt -o again.ckpt
ckpt strip --auto data/train.pt -o bare.pt
ckpt strip --auto bare.pt -o bare2.pt
