# Files of paddle.save are listed: state dicts, pairs of a name and an array, a tensor, a list, large parameters in slices.
p=corpus/paddle
ckpt ls $p/model_p2.pdparams $p/opt_p3.pdopt $p/list.pdparams $p/scalar.pdparams $p/static/prog.pdparams
ckpt ls -l $p/nested.pdparams $p/bigparam_p2.pdparams $p/tensor.pdparams
ckpt info $p/model_default.pdparams
# bfloat16, which is stored as uint16, is recognized by the table of names, and without a table by the suffix
ckpt ls $p/dtypes.pdparams | grep -e '^bfloat16 ' -e '^uint16 '
cp $p/dtypes.pdparams renamed.pkl
ckpt diff $p/dtypes.pdparams renamed.pkl
for f in $p/bad/*; do
    ckpt ls "$f"
done
# neither the pairs nor uint16 are written to an output
for f in dtypes nested bigparam_p2 list; do
    ckpt convert $p/$f.pdparams -o $f.safetensors
    ckpt diff --tensors-only $p/$f.pdparams $f.safetensors
    ckpt convert $p/$f.pdparams -o $f.pt
    ckpt diff $p/$f.pdparams $f.pt
done
ckpt verify $p/bigparam_p2.pdparams
ckpt salvage $p/nested.pdparams -o salvaged.pt
ckpt sanitize $p/nested.pdparams -o clean.pt
# a slice that is none, another size, a parameter that is there whole, too, no sizes
changed()
{
    cp $p/bigparam_p2.pdparams changed.pdparams
    printf "$2" | dd of=changed.pdparams bs=1 seek="$1" conv=notrunc 2>/dev/null
    ckpt ls changed.pdparams
}
changed 1040 '\031'
changed 1016 '\007'
changed 992 '\001'
changed 1002 'X'
