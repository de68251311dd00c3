# If two keys would become one, both are named and nothing is written.
ckpt strip module. corpus/torch/t215/prefix_collision.pt -o a.pt; echo $?
ls a.pt 2>/dev/null
ckpt strip --json module. corpus/torch/t215/prefix_collision.pt -o a.pt
