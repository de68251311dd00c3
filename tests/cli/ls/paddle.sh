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
# an output has an array in place of each pair, and bfloat16 in place of uint16
for f in dtypes nested bigparam_p2 list; do
    ckpt convert $paddle/$f.pdparams -o $f.safetensors
    ckpt diff --tensors-only $paddle/$f.pdparams $f.safetensors
    ckpt convert $paddle/$f.pdparams -o $f.pt
    ckpt diff $paddle/$f.pdparams $f.pt
done
ckpt verify $paddle/bigparam_p2.pdparams
ckpt salvage $paddle/nested.pdparams -o salvaged.pt
ckpt sanitize $paddle/nested.pdparams -o clean.pt
# list_changed OFFSET BYTES - lists a copy of bigparam_p2.pdparams with BYTES at OFFSET
list_changed()
{
    cp $paddle/bigparam_p2.pdparams changed.pdparams
    printf "$2" | dd of=changed.pdparams bs=1 seek="$1" conv=notrunc 2>/dev/null
    ckpt ls changed.pdparams
}
# a name that is not that of a slice
list_changed 1040 '\031'
# slices that do not add up to the size of the parameter
list_changed 1016 '\007'
# a parameter that is also stored complete
list_changed 992 '\001'
# a table without the sizes of parameters
list_changed 1002 'X'
