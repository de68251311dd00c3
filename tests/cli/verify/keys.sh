# The names in an .npz are keys, not paths, even if some of its members have no name of an array.
header='{"../x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"r":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}'
printf '\154\0\0\0\0\0\0\0%s\1\2' "$header" | ckpt convert -q - -o keys.npz
sed 's/r\.npy/r.txt/g' keys.npz >named.npz
ckpt verify named.npz
