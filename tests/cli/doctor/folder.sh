# The fixes of a folder run as they are printed: a folder does not fit into a pipe, "." has no suffix, and an output has
# the suffix of its format.
ckpt convert -q --to dcp data/train.pt ./dcp
ckpt doctor dcp | tee report
for fix in 'all at once' '  fix: ckpt strip' '  fix: ckpt convert --root'; do
    sed -n "/^ *$fix/s/^[^:]*: //p" report >command
    sh -e ./command && ckpt doctor -q fixed*
    rm -rf fixed*
done
(cd dcp && ckpt doctor . | sed -n 's/.*strip/strip/p')
# what joblib wrote is written as a torch file
ckpt doctor corpus/numpy/np2/joblib/plain.joblib
