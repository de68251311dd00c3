# A folder that is one array of Zarr, with each codec, and an OCDBT of any content.
o=corpus/orbax
ckpt ls $o/kv/tree_zstd 2>&1 | grep -q libarchive && { echo 'libarchive is not here'; exit 77; }
ckpt ls $o/array/zarr_none
ckpt stat $o/array/zarr_none $o/array/zarr3_missing_chunk $o/array/zarr3_sharding_zstd_crc $o/array/zarr_blosc
ckpt verify $o/array/zarr3_gzip
ckpt convert $o/array/zarr_forder -o forder.npy
ckpt diff $o/array/zarr_forder forder.npy
ckpt ls $o/kv/inline $o/kv/versions
ckpt ls $o/kv/inline/manifest.ocdbt
ckpt show $o/kv/inline c/d
# damage that is seen when the chunk is read; a chunk of another length; no fill value; more than is likely
cp -r $o/array/zarr3_sharding_zstd_crc shard
printf x | dd of=shard/c/1/0 bs=1 seek=3 conv=notrunc 2>/dev/null
ckpt hash shard
truncate -s -1 shard/c/0/0
ckpt ls shard
cp -r $o/array/zarr_none short
truncate -s -1 short/0.0
ckpt ls short
rm short/0.0
ckpt ls short
sed -i 's/"fill_value":null/"fill_value":"NaN"/; s/\[5,6\]/[50000,60000]/' short/.zarray
ckpt ls short
ckpt ls --max-expanded 20G short
sed -i 's/\[4,4\]/[4,5]/' short/.zarray
ckpt ls --max-expanded 20G short
sed -i 's/"compressor":null/"compressor":{"id":"lz4"}/' short/.zarray
ckpt ls short
echo '[1' >short/.zarray
ckpt ls short
