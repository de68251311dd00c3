# A Zarr group is a checkpoint of named arrays, with attributes as values, in both versions of Zarr.
for v in v2 v3; do
    ckpt ls --values corpus/zarr/group_$v
    ckpt convert -q --drop texts corpus/zarr/group_$v -o $v.npz && ckpt ls $v.npz
done
ckpt info corpus/zarr/group_v3
ckpt diff corpus/zarr/group_v3 v3.npz
ckpt verify corpus/zarr/group_v3/encoder
# metadata of both versions in one folder: version 2 counts, and the array is listed once
cp -r corpus/zarr/group_v2 both && cp corpus/zarr/group_v3/zarr.json both && cp corpus/zarr/group_v3/w/zarr.json both/w
ckpt ls both
# faults of one array
for fault in 'printf {' 'printf {}' 'printf null' 'head -c 40 /dev/zero'; do
    rm -rf bad && cp -r corpus/zarr/group_v3 bad && $fault >bad/step/zarr.json
    ckpt ls bad
    ckpt verify bad
    ckpt salvage -q -f bad -o bad.pt
    ckpt ls bad.pt
done
# a link that leaves the folder is not followed
rm -rf bad && cp -r corpus/zarr/group_v3 bad
ln -sf /etc/passwd bad/w/c/0/0
ckpt ls bad
# an attribute with the name of an array
rm -rf clash && cp -r corpus/zarr/group_v2 clash && mv clash/step 'clash/@epoch' && ckpt ls --values clash
# consolidated metadata: the description of the group has those of its members, too
rm -rf all && cp -r corpus/zarr/group_v3 all
printf '{"zarr_format":3,"node_type":"group","consolidated_metadata":{"metadata":{"w":%s},"kind":"inline"}}' \
    "$(cat all/w/zarr.json)" >all/zarr.json && ckpt ls all
mkdir empty && echo '{"zarr_format":2}' >empty/.zgroup && ckpt ls empty
