# TensorFlow checkpoints are found by prefix, index, state file, folder or pattern; other paths are refused.
tensorflow=corpus/tensorflow
ckpt ls $tensorflow/v2/slices $tensorflow/v2/variant.index
ckpt ls $tensorflow/v1/shards.ckpt-00000-of-00003
ckpt ls "$tensorflow/v1/part_shards.ckpt-?????-of-00002"
ckpt ls $tensorflow/v1/part_shards.ckpt-00001-of-00002
ckpt info $tensorflow/obj/mgr
ckpt ls --names=object $tensorflow/obj/mgr
# Three variables, all called Variable, are named by their paths.
ckpt ls --names=variable $tensorflow/obj/mgr $tensorflow/savedmodel_v2 $tensorflow/v2/slices
ckpt ls --names=full $tensorflow/obj/mgr
cp $tensorflow/obj/tiny.index .
# A changed byte in the object graph: its checksum is wrong.
sed 's/\(VARIABLE_VALUE.*\)VARIABLE_VALUE/\1VARIABLE_VALUX/' $tensorflow/obj/tiny.data-00000-of-00001 >tiny.data-00000-of-00001
ckpt ls --names=variable tiny
rm tiny.data-00000-of-00001
ckpt ls --names=variable tiny
ckpt ls $tensorflow/v1/run
ckpt ls $tensorflow/v2/run/checkpoint
ckpt ls $tensorflow/savedmodel_v2
ckpt ls $tensorflow/savedmodel_v2/variables
ckpt ls --json $tensorflow/emulated/bigendian.index
ckpt ls $tensorflow/v2
# A state file may have absolute paths that were right before the folder was moved here. \142 is the letter b.
mkdir moved empty out
printf 'model_checkpoint_path: "/elsewhere/run/a\\142c"\nall_model_checkpoint_paths: "/elsewhere/run/abc"\n' >moved/checkpoint
for suffix in index data-00000-of-00001; do cp $tensorflow/v2/remap.$suffix moved/abc.$suffix; done
ckpt ls moved
# state files that name a file outside of the folder, have no quotes, name a missing file
printf 'model_checkpoint_path: "../secret"\n' >out/checkpoint
ckpt ls out
printf 'model_checkpoint_path: gone\n' >out/checkpoint
ckpt ls out
printf 'model_checkpoint_path: "gone"\n' >out/checkpoint
ckpt ls out
: >empty/saved_model.pb
ckpt ls empty
# damaged index files
for f in shard_9 header_future size_big offset_past dim_neg dim_huge dtype_bad value_junk slice_hole slice_overlap unsorted \
    unknown_rank dup_key header_missing index_flip index_footer_only header_shards2; do
    ckpt ls $tensorflow/bad/$f.index
done
ckpt ls $tensorflow/bad/shard_9.data-00000-of-00001
ckpt ls $tensorflow/v2/run/model.ckpt-0000002
