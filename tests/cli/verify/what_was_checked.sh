# verify counts checksums that are not those of a tensor: of the compressed file, of the member with all tensors, of the
# nodes of a database; "intact" is only what was read.
for f in corpus/compressed/* corpus/keras/k3/func.keras corpus/orbax/ocdbt_zarr2 corpus/keras/hdf5/filters.h5 \
    corpus/keras/hdf5/filters_plugin.h5 corpus/gguf/bf16.gguf corpus/tensorflow/v1/part.ckpt; do
    ckpt verify $f 2>&1
done
ckpt verify --json corpus/compressed/tiny.safetensors.gz
# each flip behind gzip's header is found
f=corpus/compressed/tiny.safetensors.gz size=$(wc -c <$f) found=0 n=0
at=20
while [ $at -lt "$size" ]; do
    { head -c $at $f; printf '\125'; tail -c +$((at + 2)) $f; } >flipped.gz
    ckpt verify -q flipped.gz >/dev/null 2>&1 || found=$((found + 1))
    n=$((n + 1)) at=$((at + 7))
done
[ $found -eq $n ] && echo 'all found'
