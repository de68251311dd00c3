# The chunks of Zarr arrays are numbers, in a folder and in an archive. Chunks of no array, and those of an
# array that cannot be read, are bytes of unknown format.
command -v zip >/dev/null || { echo "no zip here"; exit 77; }
cp -r corpus/zarr/group_v2 corpus/zarr/group_v3 .
rm -r group_v2/texts group_v3/texts # variable-length texts are not numbers
mkdir raw wrong group_v2/other
printf '\1\2\3\377' | tee raw/0 wrong/0 group_v2/other/0 group_v2/w/9.9 >raw/1
printf '{"zarr_format":2,"shape":[4],"chunks":[4],"dtype":"|u1","compressor":null,"filters":null,"order":"C","fill_value":0}' \
    >raw/.zarray
printf '{"zarr_format":2,"shape":[4],"chunks":[4],"dtype":"|O","compressor":null,"filters":null,"order":"C","fill_value":0}' \
    >wrong/.zarray
ckpt scan raw/0 raw/1 wrong/0 group_v2/other/0
(cd raw && ckpt scan 0)
tar cf t.tar ./group_v2 ./group_v3 raw wrong
zip -qr0 z.zip group_v2 group_v3 raw wrong
ckpt scan t.tar | grep -v ARC001 | sed "s/, [0-9]* members//" | sort
ckpt scan z.zip | grep -v ARC001 | sed "s/, [0-9]* members//" | sort
rm -r group_v2/other group_v2/w/9.9 raw/1 wrong
zip -qr9 c.nemo group_v2 group_v3 raw
ckpt scan c.nemo | grep -v ARC001 | sed "s/, [0-9]* members//" # notes of what libarchive unpacked
ckpt scan 'c.nemo!raw/0'
# a chunk that is a pickle, one that is compressed, and one with an archive after it
printf 'cos\nsystem\n(S"id"\ntR.' >raw/0
zip -q p.zip raw/0 raw/.zarray
printf '\1\2\3\377' | gzip -n >g
ckpt scan raw/0 p.zip
mv g raw/0
ckpt scan raw/0
(printf '\1\2\3\377'; cat p.zip) >raw/0
ckpt scan raw/0 | sed 's/0x[0-9a-f]*/0xN/'
