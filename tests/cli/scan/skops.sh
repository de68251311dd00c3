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
# What one node may name is not harmless in another, and a method is always named.
printf '{"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": [
{"__class__": "map", "__module__": "builtins", "__loader__": "TypeNode"},
{"__class__": "map", "__module__": "builtins", "__loader__": "ConstructorFromReduceNode", "content": {"__class__": "str",
"__module__": "builtins", "__loader__": "JsonNode", "content": "[]"}},
{"__class__": "sin", "__module__": "numpy", "__loader__": "FunctionNode"},
{"__class__": "expit", "__module__": "scipy.special._ufuncs", "__loader__": "FunctionNode"},
{"__class__": "sin", "__module__": "numpy", "__loader__": "ObjectNode"},
{"__class__": "LinearRegression", "__module__": "sklearn.linear_model._base", "__loader__": "MethodNode", "content":
{"func": "fit", "obj": {"__class__": "LinearRegression", "__module__": "sklearn.linear_model._base",
"__loader__": "ObjectNode"}}}], "protocol": 2}' >nodes.json
ckpt scan nodes.json
# Protocol 0 has the names of functions in the content.
printf '{"__class__": "ufunc", "__module__": "numpy", "__loader__": "FunctionNode", "content":
{"module_path": "%s", "function": "%s"}, "protocol": 0}' numpy sin >old.json
ckpt scan old.json
sed 's/"numpy", "function": "sin"/"my.module", "function": "thing"/' old.json >old_other.json
ckpt scan old_other.json
# The bit generator of a generator is a text in its state.
printf '{"__class__": "Generator", "__module__": "numpy.random._generator", "__loader__": "RandomGeneratorNode", "content":
{"bit_generator": {"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode", "content": {"bit_generator":
{"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": "\\"PCG64\\"", "is_json": true}}}}}
' >generator.json
ckpt scan generator.json
sed 's/PCG64/seed/' generator.json >seed.json
ckpt scan seed.json
sed 's/"bit_generator": {"__class__": "dict"/"other": {"__class__": "dict"/' generator.json >unnamed.json
ckpt scan unnamed.json
