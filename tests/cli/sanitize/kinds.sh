# sanitize keeps each kind of object, replaces it by builtin types, or leaves it out and names it.
# sanitize FILE - sanitizes FILE to out.pt, and prints whether weights_only loads that
sanitize()
{
    rm -f out.pt
    ckpt sanitize "$1" -o out.pt || return
    ckpt info --json out.pt | grep -o '"weights_only":{"ok":[a-z]*'
}
for f in python_objs python_objs_p0 python_objs_p4 whole_model nested_jagged quantmodel recursive; do
    sanitize corpus/torch/t26/$f.pt
    ckpt ls --values out.pt
done
sanitize corpus/torch/t14py2/general_checkpoint.pth.tar
sanitize corpus/torch/t215/eco/lightning_2.6.6.ckpt
