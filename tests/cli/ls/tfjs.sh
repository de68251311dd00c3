# TensorFlow.js: a folder with model.json and the files that it names; quantized weights are the numbers that
# TensorFlow.js computes; the state of an optimizer is none of the weights.
d=corpus/tfjs
for f in shards uint8 uint16 float16 dtypes trained; do ckpt hash $d/$f | sed '$d' | cksum; done
ckpt ls --values $d/dtypes; ckpt ls -l $d/uint16 | cut -c1-200
ckpt show $d/dtypes qf; ckpt show $d/dtypes u16
ckpt info $d/trained; ckpt verify $d/shards
ckpt convert $d/trained -o t.safetensors && ckpt ls t.safetensors
ckpt convert -q $d/shards -o m.safetensors && ckpt diff $d/shards/model.json m.safetensors
cp -r $d/shards $d/uint8 $d/dtypes . && chmod -R u+w .
ckpt ls shards/group1-shard2of3.bin
# the manifest alone, as early converters wrote it
mkdir old && cp dtypes/*.bin old/ && sed 's/.*"weightsManifest": //; s/}$//' dtypes/model.json >old/weights_manifest.json
ckpt ls old | head -n 3
cat shards/model.json | ckpt ls -
echo '# files that are cut, missing, too long'
cut_shard() { rm -rf cut && cp -r shards cut && head -c "$2" shards/$1 >cut/$1; }
attempt() { ckpt ls cut; ckpt verify cut; ckpt salvage -q cut -o out.pt; ckpt ls out.pt; rm -f out.pt; }
cut_shard group1-shard2of3.bin 90; attempt
cut_shard group1-shard3of3.bin 10; attempt
cut_shard group1-shard1of3.bin 10; attempt
cut_shard group1-shard2of3.bin 100; rm cut/group1-shard2of3.bin; attempt
cut_shard group1-shard2of3.bin 100; echo more >>cut/group1-shard3of3.bin; attempt
rm cut/group1-shard3of3.bin && ln -s /etc/passwd cut/group1-shard3of3.bin; ckpt ls cut
echo '# manifests that are wrong'
# edit FOLDER SED - lists a copy of FOLDER with model.json edited by SED
edit() { rm -rf e && cp -r $1 e && sed "$2" $1/model.json >e/model.json; echo "# $2"; ckpt ls e; }
edit shards 's/group1-shard3of3.bin/..\/x.bin/'
edit shards 's/"float32"}, {"name": "head/"float7"}, {"name": "head/'
edit shards 's/"name": "head\/bias", //'
edit shards 's/head\/bias/head\/kernel/'
edit shards 's/"shape": \[3\]/"shape": [-3]/'
edit shards 's/"shape": \[3\]/"shape": [4294967296, 4294967296]/'
edit shards 's/"shape": \[3\]/"shape": 3/'
edit shards 's/"weights":/"weihgts":/'
edit shards 's/"weightsManifest": \[{.*/"weightsManifest": 7}/'
edit shards 's/}$//'
edit shards 's/"paths": \["group1-shard1of3.bin"/"paths": [1/'
edit dtypes 's/"shape": \[3\], "dtype": "string"/"shape": [4000000], "dtype": "string"/'
edit dtypes 's/"shape": \[3\], "dtype": "string"/"shape": [2], "dtype": "string"/'
edit dtypes 's/"signature"/"f"/; s/{}/7/' | tail -n 4
edit uint8 's/"dtype": "uint8"/"dtype": "uint4"/'
edit uint8 's/"scale": [0-9.]*/"scale": 1e999/'
edit uint8 's/"scale": [0-9.]*, //'
edit uint8 's/"dtype": "float32", "quantization"/"dtype": "int32", "quantization"/'
ckpt show e head/kernel | head -n 2
edit uint8 's/"dtype": "float32", "quantization"/"dtype": "int32", "quantization"/; s/"scale": [0-9.]*/"scale": 1e9/'
edit uint8 's/"dtype": "float32", "quantization"/"dtype": "bool", "quantization"/'
