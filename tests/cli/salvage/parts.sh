# of 13 data sets, three have checksums: it is not said that the others are intact
ckpt salvage corpus/keras/hdf5/filters.h5 -o filters.safetensors
# What is damaged is named, exit 1, and all else is written.
command -v zip >/dev/null || { echo 'no zip here'; exit 77; }
. "$TESTS/safetensors.sh"

# put BYTE OFFSET FILE - overwrites one byte
put() { printf %s "$1" | dd of="$3" bs=1 seek="$2" conv=notrunc 2>/dev/null; }

echo '# the model states of ZeRO are cut in the record of a buffer'
cp -r corpus/deepspeed/zero1_fp32 zero && chmod -R u+w zero
head -c 2175 corpus/deepspeed/zero1_fp32/global_step2/mp_rank_00_model_states.pt \
    >zero/global_step2/mp_rank_00_model_states.pt
ckpt salvage zero -o zero.pt; echo "exit $?"
ckpt diff corpus/deepspeed/zero1_fp32 zero.pt

echo '# the headers of a member of .npz have two names'
cp corpus/numpy/np2/deflate.npz two.npz && chmod u+w two.npz
put e 665 two.npz
ckpt salvage two.npz -o two.safetensors; echo "exit $?"
ckpt ls two.safetensors

echo '# the code of a TorchScript archive is damaged: its classes are not known'
cp corpus/torch/libtorch215/save_adam.pt adam.pt && chmod u+w adam.pt
put X 3738 adam.pt
ckpt salvage -n adam.pt -o no.pt; echo "exit $?"

echo '# an archive is cut in its second member, which is an archive itself'
head -c 267 corpus/containers/sb3.zip >sb3.zip
ckpt salvage sb3.zip -o no.pt; echo "exit $?"

echo '# bytes that no tensor has'
print_safetensors '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' xyz >stray.safetensors
ckpt salvage stray.safetensors -o a.safetensors; echo "exit $?"

echo '# a tensor that cannot be read, one of a dtype that no format has'
ckpt salvage corpus/keras/hdf5/filters_plugin.h5 -o filters.pt; echo "exit $?"
ckpt ls filters.pt | wc -l
echo '# a dtype that numpy alone has: an .npz keeps it, as convert does'
for x in str_U datetime void dt_int8; do cp "corpus/numpy/np2/$x.npy" .; done
zip -q mixed.npz str_U.npy datetime.npy void.npy dt_int8.npy
for o in npz pt safetensors; do ckpt salvage mixed.npz -o "kept.$o"; echo "exit $?"; done
ckpt diff mixed.npz kept.npz; ckpt ls kept.pt
ckpt salvage -n corpus/numpy/np2/struct.npy -o no.npz; echo "exit $?"

echo '# a part is lost and no tensor is left: nothing is written'
head -c 40 corpus/onnx/shapes.onnx >shapes.onnx
for f in shapes.onnx corpus/tensorflow/bad/index_flip.index; do
    for o in no.pt no.safetensors no.npz no.msgpack no.dcp; do ckpt salvage $f -o $o; echo "exit $?"; done
done
echo no.*

echo '# -q prints how many parts are lost'
head -c 60 corpus/onnx/shapes.onnx >shapes.onnx
ckpt salvage -q shapes.onnx -o shapes.safetensors; echo "exit $?"

echo '# the metadata of a .keras file are damaged'
cp corpus/keras/k3/seq.keras seq.keras && chmod u+w seq.keras
put X 50 seq.keras
ckpt salvage seq.keras -o seq.safetensors; echo "exit $?"
ckpt diff -q corpus/keras/k3/seq.keras seq.safetensors
