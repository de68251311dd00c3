# Keras files in each of their forms are read by one reader, with the names that HDF5 has; what cannot be read is named.
for f in k3/func.keras k3/unzipped k3/sharded k3/base.weights.h5 k212/seq.h5 hf-tf/sharded hf-tf/single; do
    ckpt info "corpus/keras/$f" | sed -n '1,2p'
done
ckpt ls corpus/keras/k3/sharded/model.weights.json
ckpt ls --values corpus/keras/k3/bad/gzip.weights.h5
ckpt ls corpus/keras/hdf5/types.h5
ckpt ls corpus/keras/hdf5/links.h5
ckpt ls --json corpus/keras/hdf5/filters.h5
ckpt show corpus/keras/k3/bad/gzip.weights.h5 'layers/dense/vars/0'
ckpt verify corpus/keras/hdf5/filters.h5
ckpt verify corpus/keras/hdf5/filters_plugin.h5
# Truncated files, data in other files and shapes larger than the data are refused.
ckpt ls corpus/keras/hdf5/bad_trunc.h5
ckpt ls corpus/keras/k3/bad/virtual.weights.h5
ckpt ls corpus/keras/k3/bad/external_storage.weights.h5
ckpt ls corpus/keras/k3/bad/softlink.weights.h5
ckpt ls corpus/keras/k3/bad/bomb.weights.h5
ckpt ls corpus/keras/k3/npz_store.keras
# Converted to a different format, the tensors are equal; what torch lacks is named and refused.
ckpt convert corpus/keras/k3/func.keras -o func.safetensors
ckpt diff --tensors-only corpus/keras/k3/func.keras func.safetensors && echo same
ckpt convert corpus/keras/hdf5/types.h5 -o types.pt
ckpt convert corpus/keras/hdf5/filters.h5 -o filters.safetensors
ckpt convert corpus/keras/hdf5/filters_plugin.h5 -o filters_plugin.safetensors
# Attributes that are arrays become lists, in both files.
ckpt convert -q corpus/keras/tfk/rnn_w.h5 -o rnn.pt
ckpt diff corpus/keras/tfk/rnn_w.h5 rnn.pt
ckpt ls --values -g '*layer_names*' corpus/keras/tfk/rnn_w.h5
# A missing shard, and the index of a different save, are refused.
cp -r corpus/keras/k3/sharded set && chmod -R u+w set && rm set/model_00001.weights.h5
ckpt ls set
cp corpus/keras/k3/sharded/model_00000.weights.h5 set/model_00001.weights.h5
ckpt ls set
