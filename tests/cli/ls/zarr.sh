# A folder that is one Zarr array is read with each codec, and an OCDBT database is listed whatever it holds.
orbax=corpus/orbax
ckpt ls $orbax/kv/tree_zstd 2>&1 | grep -q libarchive && { echo 'libarchive is not here'; exit 77; }
ckpt ls $orbax/array/zarr_none
ckpt stat $orbax/array/zarr_none $orbax/array/zarr3_missing_chunk $orbax/array/zarr3_sharding_zstd_crc $orbax/array/zarr_blosc
ckpt verify $orbax/array/zarr3_gzip
ckpt convert $orbax/array/zarr_forder -o forder.npy
ckpt diff $orbax/array/zarr_forder forder.npy
ckpt ls $orbax/kv/inline $orbax/kv/versions
ckpt ls $orbax/kv/inline/manifest.ocdbt
ckpt show $orbax/kv/inline c/d
# A changed byte is noticed when the chunk is read.
cp -r $orbax/array/zarr3_sharding_zstd_crc shard
printf x | dd of=shard/c/1/0 bs=1 seek=3 conv=notrunc 2>/dev/null
ckpt hash shard
# A truncated chunk is noticed when the folder is listed.
truncate -s -1 shard/c/0/0
ckpt ls shard
cp -r $orbax/array/zarr_none short
truncate -s -1 short/0.0
ckpt ls short
# A chunk is missing, and the array has no fill value.
rm short/0.0
ckpt ls short
# With a fill value the chunk may be missing, but the array is larger than --max-expanded allows by default.
sed -i 's/"fill_value":null/"fill_value":"NaN"/; s/\[5,6\]/[50000,60000]/' short/.zarray
ckpt ls short
ckpt ls --max-expanded 20G short
# The stored chunks are smaller than .zarray states.
sed -i 's/\[4,4\]/[4,5]/' short/.zarray
ckpt ls --max-expanded 20G short
# an unknown codec
sed -i 's/"compressor":null/"compressor":{"id":"lz4"}/' short/.zarray
ckpt ls short
# malformed JSON
echo '[1' >short/.zarray
ckpt ls short
# The file x is a node of an OCDBT database with the key "k" and the value "yz". This manifest names it "../x".
mkdir out
printf '\014\333\040\336\033\000\000\000\000\000\000\000\000\000\000\000\001\001\153\002\000\171\172\371\276\331\333' >x
printf '\014\333\072\052\101\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\144\350\007\004\000\001\004\000\056\056\057\170\001\001\000\000\000\033\001\011\000\000\000\000\000\000\000\000\000\000\016\226\115\037' >out/manifest.ocdbt
ckpt ls out
# This manifest names the node "l", which is a link out of the folder.
printf '\014\333\072\052\076\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\144\350\007\004\000\001\001\000\154\001\001\000\000\000\033\001\011\000\000\000\000\000\000\000\000\000\000\265\360\150\312' >out/manifest.ocdbt
ln -s ../x out/l
ckpt ls out
# Now "l" is the node itself.
rm out/l
mv x out/l
ckpt show out k
