# scan reports what a Keras description names: a Lambda or a class of another module, as JSON may spell it.
cat >plain.json <<'X'
{"module": "keras.src.models", "class_name": "Sequential", "config": {"layers": [
  {"module": "keras.layers", "class_name": "Dense", "config": {"name": "Lambda"}, "registered_name": null}]}}
X
printf '{"class_name": "Sequential", "config": {"layers": [{"class_name": "Lam\\u0062da"}]}}' >lambda.json
printf '{"config": {"arguments": ["x"]}, "class_name": "system", "module": "os"}' >module.json
printf '{"module": "os", "x": {"class_name": 1}, "cla' >cut.json
{ printf ' \n{"class_name": "Lambda", "deep": '; printf '[%.0s' $(seq 1 200); } >deep.json
ckpt scan deep.json
ckpt scan plain.json lambda.json module.json cut.json
printf '{"module": "keras.src.utils.file_utils", "class_name": "function", "config": "get_file"}' >function.json
printf '{"module": "keras.layers", "class_name": "TorchModuleWrapper", "config": {"module": "gAJ"}}' >torch.json
printf '{"module": "keras.activations", "class_name": "function", "config": "relu", "registered_name": "relu"}' >relu.json
ckpt scan -q function.json torch.json relu.json
# scan reads what Python's json accepts and RFC 8259 does not, and descriptions in a list.
printf '\357\273\277{"module": "os", "class_name": "system"}' >mark.json
printf '{"loss": [NaN, -Infinity, "\\ud800"], "module": "os", "class_name": "system"}' >nan.json
printf '[{"module": "os", "class_name": "system"}]' >list.json
printf '["NaN", "Infinity \\" NaN", {"class_name": "Dense"}, NaN]' >quoted.json
printf '{"class_name": "Dense", "config": {"activation": {"class_name": "__lambda__", "config": {"value": "4wE"}}}}' >lambda_in.json
ckpt scan -q mark.json nan.json list.json quoted.json lambda_in.json
