# Texts in the metadata of an index are copied to the metadata of the one output file; values of other types are not.
. "$TESTS/safetensors.sh"
print_safetensors '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' xy >1.safetensors
print_safetensors '{"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}' xyz >2.safetensors
cat >model.safetensors.index.json <<'END'
{"metadata":{"total_size":5,"t":"a","total_parameters":"9","n":3,"deep":{"t":["x"]},"list":["y"],"no":null,"yes":true,
"u":"b"},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}
END
ckpt convert model.safetensors.index.json one.safetensors; echo $?
tail -c +9 one.safetensors | head -c 60; echo
ckpt verify .

# A total_size that is no number is not read.
mkdir folder
mv 1.safetensors 2.safetensors folder
echo '{"metadata":{"total_size":[5]},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}' \
    >folder/model.safetensors.index.json
ckpt ls folder
