# expressions in the configurations of a MONAI bundle; other JSON may hold texts that begin with "$"
mkdir configs
printf '{"imports": ["$import os"], "net": {"_target_": "torch.nn.Linear", "in": "@x"}, "x": "$os.getpid()"}' >configs/a.json
printf '{"a": "$os.getpid()", "b": "$5", "c": "${a}"}' >configs/b.json
printf '{"merges": ["$os.getpid()", "$ ("]}' >tokenizer.json
printf 'a: $os.getpid()\nb: "%%../c.json::d"\n' >train.yaml
ckpt scan configs/a.json configs/b.json tokenizer.json train.yaml
echo "exit $?"
