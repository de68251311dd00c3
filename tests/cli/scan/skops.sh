# The types that a schema of skops names are known to skops, or a finding; the order of the keys does not matter.
ckpt scan corpus/numpy/np2/nested.skops
echo "exit $?"
printf '{"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode", "content": {"a": {"content": {"x": 1},
"__loader__": "ObjectNode", "__class__": "Thing", "__module__": "my.module"}, "b": {"__class__": "methodcaller",
"__module__": "operator", "__loader__": "OperatorFuncNode"}}, "_skops_version": "0.16.0"}' >schema.json
ckpt scan schema.json
echo "exit $?"
# Without a loader, it is no node.
printf '{"__class__": "Thing", "__module__": "my.module"}' >data.json
ckpt scan data.json
