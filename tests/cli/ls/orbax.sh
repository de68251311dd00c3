# ls reads an Orbax item, the items of a step, and the last of several steps; it refuses unfinished or damaged ones.
orbax=corpus/orbax
ckpt ls $orbax/standard 2>&1 | grep -q libarchive && { echo 'libarchive is not here'; exit 77; }
ckpt ls --values $orbax/ocdbt_zarr3
ckpt info $orbax/plain_zarr2
ckpt ls --values $orbax/manager
ckpt ls --json $orbax/standard
ckpt convert $orbax/ocdbt_zarr2 -o all.pt
ckpt diff $orbax/ocdbt_zarr2 all.pt
ckpt convert $orbax/standard -o standard.safetensors
ckpt diff $orbax/standard standard.safetensors
ckpt doctor $orbax/standard
ckpt verify $orbax/plain_zarr3
ckpt ls $orbax/unfinished.orbax-checkpoint-tmp
ckpt salvage $orbax/unfinished.orbax-checkpoint-tmp -o unfinished.pt
for bad in data_flip data_missing manifest_flip manifest_magic manifest_missing manifest_short metadata_junk metadata_missing node_flip; do
    ckpt ls $orbax/bad/$bad
done
ckpt verify $orbax/bad/node_flip
# If the last step is unfinished, the step before it is read.
mkdir steps
cp -r $orbax/standard steps/7
cp -r $orbax/standard steps/12.orbax-checkpoint-tmp-3
ckpt ls steps
# The last step has no item.
mkdir steps/20
echo '{}' >steps/20/_CHECKPOINT_METADATA
ckpt ls steps
# One array has no metadata. Another lacks a chunk: by _METADATA, chunks equal to the fill value are not stored.
cp -r $orbax/plain_zarr2 item
rm item/np/.zarray item/params.dense.kernel/0.1
ckpt ls item
ckpt verify item
ckpt salvage item -o item.pt
cp $orbax/plain_zarr2/np/.zarray item/np
# If _METADATA states that all chunks are stored, the missing chunk is lost.
sed -i 's/equal_to_fill_value": true/equal_to_fill_value": false/' item/_METADATA
ckpt show item params.dense.kernel
# A chunk that is a link out of the folder is refused.
rm item/step/0
ln -s ../../all.pt item/step/0
ckpt ls item
ckpt verify item
