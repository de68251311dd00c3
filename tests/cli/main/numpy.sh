# The commands read numpy's arrays and archives and joblib's files; what is refused is named.
numpy=corpus/numpy/np2
for f in dt_float32.npy struct.npy str_U.npy fortran.npz names.npz joblib/struct.joblib; do
    ckpt ls $numpy/$f
done
ckpt info $numpy/fortran_be.npy $numpy/deflate.npz $numpy/joblib/gzip.joblib
ckpt show $numpy/fortran.npz be
ckpt show $numpy/str_S.npy ''
ckpt stat $numpy/deflate.npz $numpy/struct.npy
ckpt hash $numpy/deflate.npz $numpy/ml_bfloat16.npy
ckpt diff $numpy/stored.npz $numpy/hand/suffix.npz && echo equal
ckpt diff $numpy/str_S.npy $numpy/str_U.npy
ckpt verify $numpy/deflate.npz
ckpt doctor $numpy/deflate.npz
ckpt ls --json $numpy/timedelta.npy
echo '# several arrays in one file'
cat $numpy/dt_int8.npy $numpy/fortran.npy $numpy/str_S.npy >several.npy
ckpt ls several.npy
printf xx >>several.npy
ckpt ls several.npy
head -c 300 several.npy >cut.npy
ckpt ls cut.npy
ckpt verify cut.npy
echo '# edits'
ckpt strip a/ $numpy/names.npz -o out.pt
ckpt ls out.pt
ckpt convert $numpy/joblib/plain.joblib --root nested.list -o list.pt
ckpt ls list.pt
ckpt convert $numpy/stored.npz -o w.safetensors && ckpt diff $numpy/stored.npz w.safetensors
ckpt convert $numpy/str_S.npy -o s.safetensors
echo '# refused'
for f in object.npy object.npz struct_object.npy hand/dup.npz hand/collide.npz hand/bad_member.npz hand/crc.npz \
    hand/npy_short.npz hand/prefix.npz hand/trunc.npz hand/expr.npy hand/huge.npy hand/deep9000.npy hand/v4.npy \
    hand/descr_bad.npy hand/hlen_lie.npy; do
    ckpt hash -q $numpy/$f
done
ckpt ls --max-expanded 1000 $numpy/deflate.npz
ckpt ls $numpy/hand/other_member.npz
ckpt salvage $numpy/hand/npy_short.npz -o saved.pt
ckpt scan $numpy/object.npy
echo '# written'
ckpt convert data/train.pt -o train.npz
ckpt diff -q --root state_dict data/train.pt train.npz && echo equal
ckpt convert $numpy/fortran_be.npy -o one.npy && cmp one.npy $numpy/hand/ok.npy && echo 'the bytes of numpy.save'
for f in scalar empty3 str_U timedelta dt_bool dt_longdouble dt_complex64 void; do
    ckpt convert -qf $numpy/$f.npy -o one.npy && cmp one.npy $numpy/$f.npy
done
ckpt convert $numpy/names.npz --keep é日 --to npy -o two && ckpt ls two
ckpt convert $numpy/names.npz -o names.npz && ckpt diff $numpy/names.npz names.npz
ckpt convert $numpy/names.npz -o x.npy
ckpt convert corpus/torch/t26/dtype_bfloat16.pt -o x.npz
ckpt convert --cast '*=float32' corpus/torch/t26/dtype_bfloat16.pt -o x.npz && ckpt ls x.npz
ckpt convert $numpy/struct.npy -o y.npz
ckpt convert corpus/torch/t26/tied.pt -o tied.npz && ckpt ls tied.npz
ckpt convert --ties=error corpus/torch/t26/tied.pt -o tied_no.npz
ckpt convert --strict $numpy/joblib/plain.joblib --root auto -o y.npz
ckpt convert --dry-run --json $numpy/stored.npz -o y.npz
ckpt strip module. train.npz -o stripped.npz && ckpt ls stripped.npz | head -n 2
# scan accepts the suffix
ckpt convert -q --root state_dict data/train.pt -o scanned.npz
ckpt scan scanned.npz
