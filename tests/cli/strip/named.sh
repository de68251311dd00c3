# strip removes a given prefix once, --auto as often as it is there, --anywhere also in the middle of names; names
# without the prefix stay.
ckpt strip module. corpus/torch/t215/dp_twice.pt -o a.pt
ckpt ls a.pt
ckpt strip --auto corpus/torch/t215/dp_twice.pt -o b.pt
ckpt ls b.pt
ckpt strip --anywhere module. corpus/torch/t26/midkey_dataparallel.pt -o c.pt
ckpt ls c.pt
ckpt strip module. corpus/torch/t215/prefix_mixed.pt -o d.pt
ckpt ls d.pt
