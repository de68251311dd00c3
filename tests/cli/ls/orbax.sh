# ls reads an Orbax item, the items of a step, and the last of several steps; it refuses unfinished or damaged ones.
o=corpus/orbax
ckpt ls $o/standard 2>&1 | grep -q libarchive && { echo 'libarchive is not here'; exit 77; }
ckpt ls --values $o/ocdbt_zarr3
ckpt info $o/plain_zarr2
ckpt ls --values $o/manager
ckpt ls --json $o/standard
ckpt convert $o/ocdbt_zarr2 -o all.pt
ckpt diff $o/ocdbt_zarr2 all.pt
ckpt convert $o/standard -o standard.safetensors
ckpt diff $o/standard standard.safetensors
ckpt doctor $o/standard
ckpt verify $o/plain_zarr3
ckpt ls $o/unfinished.orbax-checkpoint-tmp
ckpt salvage $o/unfinished.orbax-checkpoint-tmp -o unfinished.pt
for bad in data_flip data_missing manifest_flip manifest_magic manifest_missing manifest_short metadata_junk metadata_missing node_flip; do
    ckpt ls $o/bad/$bad
done
ckpt verify $o/bad/node_flip
# of several steps, one is unfinished and one has no item
mkdir steps
cp -r $o/standard steps/7
cp -r $o/standard steps/12.orbax-checkpoint-tmp-3
ckpt ls steps
mkdir steps/20
echo '{}' >steps/20/_CHECKPOINT_METADATA
ckpt ls steps
# an array that is not there; one without a chunk, where all were stored and where not; a link that leads out
cp -r $o/plain_zarr2 item
rm item/np/.zarray item/params.dense.kernel/0.1
ckpt ls item
ckpt verify item
ckpt salvage item -o item.pt
cp $o/plain_zarr2/np/.zarray item/np
sed -i 's/equal_to_fill_value": true/equal_to_fill_value": false/' item/_METADATA
ckpt show item params.dense.kernel
rm item/step/0
ln -s ../../all.pt item/step/0
ckpt ls item
ckpt verify item
