# Attributes of HDF5 with more than 64 KiB are complete: a text in the fractal heap, one in the global heap, and numbers.
f=corpus/keras/hdf5/large_attributes.h5
ckpt show $f @fixed | cut -c 1-70
digits=$(awk 'BEGIN { while (n++ < 7000) printf "0123456789" }')
# check_text NAME TEXT
check_text() { [ "$(ckpt show --json $f "$1" | sed 's/.*"value":"//; s/".*//')" = "$2" ] && echo "$1 is complete"; }
check_text @fixed "$digits"
check_text @text "$(echo "$digits" | tr 0 -)"
ckpt show $f @numbers | awk 'NR > 1 && $1 - $1 % 10 == $3' | wc -l
ckpt convert -q $f -o attributes.pt
ckpt diff $f attributes.pt
ckpt meta $f
