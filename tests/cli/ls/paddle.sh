# Files of paddle.save are listed: state dicts, pairs of a name and an array, a tensor, a list, large parameters in slices.
paddle=corpus/paddle
ckpt ls $paddle/model_p2.pdparams $paddle/opt_p3.pdopt $paddle/list.pdparams $paddle/scalar.pdparams $paddle/static/prog.pdparams
ckpt ls -l $paddle/nested.pdparams $paddle/bigparam_p2.pdparams $paddle/tensor.pdparams
ckpt info $paddle/model_default.pdparams
# bfloat16, which is stored as uint16, is recognized by the table of names, and without a table by the suffix
ckpt ls $paddle/dtypes.pdparams | grep -e '^bfloat16 ' -e '^uint16 '
cp $paddle/dtypes.pdparams renamed.pkl
ckpt diff $paddle/dtypes.pdparams renamed.pkl
for f in $paddle/bad/*; do
    ckpt ls "$f"
done
# neither the pairs nor uint16 are written to an output
for f in dtypes nested bigparam_p2 list; do
    ckpt convert $paddle/$f.pdparams -o $f.safetensors
    ckpt diff --tensors-only $paddle/$f.pdparams $f.safetensors
    ckpt convert $paddle/$f.pdparams -o $f.pt
    ckpt diff $paddle/$f.pdparams $f.pt
done
ckpt verify $paddle/bigparam_p2.pdparams
ckpt salvage $paddle/nested.pdparams -o salvaged.pt
ckpt sanitize $paddle/nested.pdparams -o clean.pt
# changed AT BYTES - lists a copy of the file with BYTES at AT: a name that is no slice's, a different size, a parameter
# that is also stored complete, no sizes
changed()
{
    cp $paddle/bigparam_p2.pdparams changed.pdparams
    printf "$2" | dd of=changed.pdparams bs=1 seek="$1" conv=notrunc 2>/dev/null
    ckpt ls changed.pdparams
}
changed 1040 '\031'
changed 1016 '\007'
changed 992 '\001'
changed 1002 'X'
