# Paths in configurations that lead out of the folder of the checkpoint (EXT001).
mkdir out in
printf '{"weight_map": {"/layers/a": ["../x.weights.h5"]}}' >out/keras.json
printf '{"format": "layers-model", "weightsManifest": [{"paths": ["x.bin", "../x.bin"]}]}' >out/tfjs.json
printf '{"itemInfoEntries": {"A": {"path": "../../x"}}}' >out/Manifest.json
printf '{"tokenizer_class": "LlamaTokenizer", "gguf_file": "/etc/x.gguf"}' >out/tokenizer_config.json
printf '../global_step2\n' >out/latest
printf 'flavors:\n  python_function: {python_model: ../model.pkl, code: /tmp/code}\n  sklearn:\n    pickled_model: a/../../x\n' \
    >out/MLmodel
ckpt scan out
printf '{"weight_map": {"/layers/a": ["x.weights.h5"]}}' >in/keras.json
printf '{"weightsManifest": [{"paths": ["x.bin"]}], "paths": "../x", "path": "../x"}' >in/tfjs.json
printf '{"gguf_file": "x.gguf"}' >in/tokenizer_config.json
printf 'checkpoint' >in/latest
printf 'artifact_path: /tmp/model\nflavors:\n  python_function: {python_model: model.pkl, code: null, data: data}\n' >in/MLmodel
ckpt scan in
