# The arrays in a file of skops have the names by which its schema.json finds them.
ckpt ls corpus/numpy/np2/nested.skops
ckpt info corpus/numpy/np2/nested.skops
# with a damaged schema they are refused, and salvage names them for their members; another schema.json is no array
mkdir d && cd d && unzip -q ../corpus/numpy/np2/nested.skops
command -v zip >/dev/null || { echo 'no zip'; exit 77; }
echo '{"_skops_version":' >schema.json
zip -q ../broken.skops ./*.npy schema.json
echo '{"title": "other"}' >schema.json
zip -q ../other.npz ./*.npy schema.json
cd ..
ckpt ls broken.skops || echo "exit $?"
ckpt salvage broken.skops -o saved.npz || echo "exit $?"
ckpt ls saved.npz
ckpt ls other.npz
