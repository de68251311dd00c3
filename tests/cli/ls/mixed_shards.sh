# A set of two formats, in the order of the index: shards that have only tensors, and one with a graph and a composite.
ckpt convert -q corpus/torch/t20/parameter.pt -o 1.safetensors
cp corpus/torch/t20/sparse.pt 2.safetensors
ckpt convert -q corpus/torch/t20/tied.pt -o 3.safetensors
cat >m.safetensors.index.json <<'EOF'
{"weight_map": {"rg": "1.safetensors", "b": "3.safetensors", "s": "2.safetensors", "a": "3.safetensors",
 "p": "1.safetensors"}}
EOF
ckpt ls -l m.safetensors.index.json
ckpt rename -q -s '^=>x.' m.safetensors.index.json -o out.pt
ckpt ls -l out.pt
