# Attributes of a tensor that a rule changes are left out, with a report: they may be about what it was.
try() { ckpt edit -f --no-sync -o out.pt "$@" && ckpt ls --values out.pt; }
try corpus/torch/t26/parameter_with_state.pt -e 'flatten p'
try corpus/torch/t26/parameter_with_state.pt -e 'untie p' --strict
try corpus/torch/t26/parameter_with_state.pt -e 'rename ^p$ => q'
try corpus/torch/t26/parameter_with_state.pt -e 'set p.tag = 1'
try corpus/torch/t26/tensor_with_attr.pt -e 'reshape t [-1] -> u'
try corpus/torch/t26/buffer.pt -e 'untie b' --json
ckpt edit -f --no-sync corpus/torch/t26/buffer.pt -o out.safetensors -e 'untie b'
ckpt average -q -f --no-sync corpus/torch/t26/parameter_with_state.pt corpus/torch/t26/parameter_with_state.pt -o out.pt
