# An array in several places of a skops file is one object of several names if skops loads it as one, by its __id__.
command -v zip >/dev/null || { echo 'no zip'; exit 77; }
mkdir d && cd d && unzip -q ../corpus/numpy/np2/nested.skops
a=139812506784496.npy # float64 [3]
node() { printf '"%s":{"__loader__":"NdArrayNode","type":"numpy","file":"%s"%s}' "$1" "$2" "$3"; }
schema() { printf '{"_skops_version":"0.16.0","__loader__":"DictNode","content":{%s}}' "$1" >schema.json; }
inner="{\"__loader__\":\"DictNode\",\"content\":{$(node x $a ',"__id__":7')}}"
schema "$(node a $a ',"__id__":7'),\"l\":{\"__loader__\":\"ListNode\",\"content\":[$inner]}"
zip -q ../two.skops $a schema.json
# other ids, none, and 0: other objects; a name that is also that of a member does not take its array
b=139812506786224.npy # float64 [2]
schema "$(node a $a ',"__id__":7'),$(node other $a ',"__id__":8'),$(node b $a ',"__id__":7'),$(node none $a ''
    ),$(node zero $a ',"__id__":0'),$(node $b $a ',"__id__":9'),$(node mine $b ',"__id__":10')"
zip -q ../many.skops $a $b schema.json
schema "$(node none $a ''),$(node too $a ''),$(node zero $b ',"__id__":0'),$(node nil $b ',"__id__":0')"
zip -q ../no_ids.skops $a $b schema.json
cd ..
ckpt ls two.skops && ckpt info two.skops
ckpt info many.skops no_ids.skops
ckpt hash many.skops
for to in npz safetensors; do
    ckpt convert two.skops -o "two.$to" && ckpt ls "two.$to" && ckpt diff two.skops "two.$to"
    ckpt convert many.skops -o "many.$to" && ckpt diff many.skops "many.$to"
done
ckpt meta two.safetensors
ckpt meta many.safetensors
