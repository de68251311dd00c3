# verify checks the CRC of each entry of a TensorFlow checkpoint and of each block of its tables.
tensorflow=corpus/tensorflow
ckpt verify $tensorflow/v2/slices.index $tensorflow/v2/shards.index $tensorflow/v1/slices.ckpt $tensorflow/obj/mgr $tensorflow/emulated/snappy.index
for f in crc_wrong crc_zero data_flip data_missing data_short index_flip shard_9 slice_hole slice_overlap; do
    ckpt verify $tensorflow/bad/$f.index
done
ckpt verify $tensorflow/bad/slice_overlap.ckpt
# a wrong byte in a slice
cp $tensorflow/v2/slices.* .
printf '\377' | dd of=slices.data-00000-of-00001 bs=1 seek=4000 conv=notrunc 2>/dev/null
ckpt verify slices
ckpt hash slices
ckpt hash --ignore-crc slices
cp $tensorflow/savedmodel_v2/variables/variables.* .
ckpt show variables 's/.ATTRIBUTES/VARIABLE_VALUE'
ckpt verify --json variables
