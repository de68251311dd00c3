# strip removes a given prefix once, --auto both of two, --anywhere also in the middle of names; keys without it stay.
ckpt strip module. corpus/torch/t215/dp_twice.pt -o a.pt
ckpt ls a.pt
ckpt strip --auto corpus/torch/t215/dp_twice.pt -o b.pt
ckpt ls b.pt
ckpt strip --anywhere module. corpus/torch/t26/midkey_dataparallel.pt -o c.pt
ckpt ls c.pt
ckpt strip module. corpus/torch/t215/prefix_mixed.pt -o d.pt
ckpt ls d.pt
