# Names in configurations that programs import and call: in a pickle, those of other packages are notes.
printf '(dVhyper_parameters\n(dV_target_\nVmy.Net\nssVmeta\n(dVcfg\nVa = dict(type='"'my.Net'"')\nss.' >own.pkl
printf '(dVhyper_parameters\n(dV_target_\nVtorch.os.getpid\nss.' >exec.pkl
printf '(dVmeta\n(dVcfg\nVa = inert_probe()\nss.' >config.pkl
printf '{"net": {"\\u005ftarget_": "os.getpid"}, "a": {"class_path": "inert_probe.Net"}}' >net.json
ckpt scan own.pkl exec.pkl config.pkl net.json
echo "exit $?"
ckpt scan -q own.pkl
echo "exit $?"
ckpt scan --sarif exec.pkl | tr '{' '\n' | grep -A 9 SRC008 | head -n 3
# Texts in other texts, and the configurations of other libraries.
metadata='{"__metadata__":{"a":"Y29zCmdldHBpZAoodFIu"}}  '
{ printf '\057\0\0\0\0\0\0\0' && printf '%s' "$metadata"; } >meta.safetensors
printf '{"a": "{\\"_target_\\": \\"os.getpid\\"}", "py/repr": "os/os.getpid()"}' >nested.json
printf '{"version": 1, "refs": {"a/0": ["{{u.x}}", 0, 4]}}' >refs.json
printf 'import os\ninclude "/x.gin"\na.b = @os.getpid()\n' >config.gin
mkdir MAR-INF && printf '{"model": {"handler": "inert_probe:f"}}' >MAR-INF/MANIFEST.json
ckpt scan meta.safetensors nested.json refs.json config.gin MAR-INF
echo "exit $?"
# YAML: in metadata; a "target" of NeMo, and two that name no class.
metadata='{"__metadata__":{"a":"class_path: os.getpid"}}  '
{ printf '\060\0\0\0\0\0\0\0' && printf '%s' "$metadata"; } >yaml.safetensors
printf 'handlers:\n  h:\n    class: logging.StreamHandler\n    target: sys.stdout\n' >logging.yaml
printf 'services:\n  web:\n    build:\n      context: .\n      target: prod.stage\n' >compose.yaml
printf 'target: inert_probe.Net\nnemo_version: 2.0\n' >model_config.yaml
ckpt scan yaml.safetensors model_config.yaml logging.yaml compose.yaml
echo "exit $?"
# Configurations of gin at addresses; comments and strings. References of kerchunk without "refs".
printf 'include "s3://bucket/x.gin"  # "y.gin"\n# a.b = @os.getpid()\na.c = "a@os.getpid"\n' >address.gin
printf '{"version": 1, "gen": [{"key": "{{ u.upper() }}", "url": "{{u}}", "dimensions": {"i": [1]}}]}' >gen.json
ckpt scan address.gin gen.json
echo "exit $?"
# Layers of YOLO, whose modules and arguments it evaluates.
printf 'nc: 1\nbackbone:\n  - [-1, 1, Conv, [64, 3, "f(1)"]]\n  - [-1, 1, nn.Upsample, [None, 2, "nearest"]]\n' >yolo.yaml
ckpt scan yolo.yaml
echo "exit $?"
