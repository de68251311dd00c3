# Text that an unpickler fails to load, but only after it has imported a module: with a name of text it is a note, with
# every other name the scan is not complete. In values of a pickle and texts without an import, it is nothing.
mkdir d
for name in model model.sav model.npy model.pdparams model.pth.tar model.pkl labels.txt README table.csv code.py; do
    printf 'cinert_mod\nE\n\n' >d/$name
done
ckpt scan d
printf 'N.cinert_mod\nE\n\n' >second
printf 'cinert-mod\nnot a name\n' >hyphen
printf 'ccinert_mod\000\n' >impossible
printf 'clearly no pickle\nat all\n' >prose
printf 'ckpt\n====\n' >README
printf "S'cat\\\\ndog\\\\n'\n." >value.pkl
ckpt scan second hyphen impossible prose README value.pkl
# A tar archive whose first member has such a name.
printf x >"$(printf 'cinert_mod\nE\n')"
tar -cf also.tar -- cinert*
ckpt scan also.tar | cut -c 1-60
