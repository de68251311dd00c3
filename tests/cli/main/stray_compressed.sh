# Bytes after the compressed data are reported, unless they are zeros; a further gzip member is data.
for packing in gz bz2; do
    echo "-- $packing"
    (cat corpus/compressed/tiny.safetensors.$packing && printf 'nothing that is compressed') >junk.safetensors.$packing
    (cat corpus/compressed/tiny.safetensors.$packing && printf '\0\0\0\0\0\0') >zeros.safetensors.$packing
    ckpt ls junk.safetensors.$packing 2>&1
    for f in junk.safetensors.$packing zeros.safetensors.$packing; do
        ckpt verify $f
        echo "exit $?"
        ckpt doctor $f
        echo "exit $?"
    done
    ckpt convert -f junk.safetensors.$packing junk.pt 2>&1
    ckpt diff -q zeros.safetensors.$packing junk.pt || echo different
done
echo '-- one byte, a member that is cut after its signature, zeros before junk'
(cat corpus/compressed/tiny.safetensors.gz && printf x) | ckpt ls - 2>&1 >/dev/null
(cat corpus/compressed/tiny.safetensors.gz && printf '\037\213\010\0') | ckpt ls - 2>&1 >/dev/null
(cat corpus/compressed/tiny.safetensors.gz && printf '\0\0\0\0junk') | ckpt ls - 2>&1 >/dev/null
echo '-- two members, and joblib'
(head -c 5000 data/train.pt | gzip -nc && tail -c +5001 data/train.pt | gzip -nc) >two.pt.gz
ckpt verify two.pt.gz
for packing in gzip zlib bz2 xz; do
    (cat corpus/numpy/np2/joblib/$packing.joblib && printf 'nothing compressed') >j.joblib
    ckpt verify j.joblib 2>&1
    ckpt ls j.joblib 2>&1 >/dev/null
done
