# Equal values are the same in every protocol of pickle, and look the same: nested classes and their members, subclasses
# of dict, list, tuple and str, objects whose constructor takes keyword arguments, names that Python 3 has changed.
for a in corpus/torch/protocols/*; do
    for b in corpus/torch/protocols/*; do
        ckpt diff -q "$a" "$b" || echo "$a differs from $b"
    done
    ckpt ls --values "$a" >"$(basename "$a").values"
    ckpt show "$a" | tail -n +2 >"$(basename "$a").shown"
    cmp "$(basename "$a").values" p0.pt.values
    cmp "$(basename "$a").shown" p0.pt.shown
done
cat p0.pt.values p0.pt.shown
# a memory format, which torch pickles only in protocol 4 and later
ckpt convert -q corpus/torch/t26/torch_memfmt.pt memory.pt
ckpt diff corpus/torch/t26/torch_memfmt.pt memory.pt
ckpt show memory.pt
