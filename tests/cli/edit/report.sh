# The report: a line for each rule; with --dry-run and --json what became of which tensors; casts that overflow.
. "$TESTS/edit_input.sh"
make_layers
rule='concat h.{i}.q, h.{i}.k dim 0 -> h.{i}.qk ; split dim 1 sizes 1 2 -> h.{i}.a, h.{i}.b'
ckpt edit layers.safetensors -o out.safetensors --no-sync -e "$rule" -e 'drop? none'
ckpt edit layers.safetensors -n -e "$rule" -e 'stack e.{e}.w -> e'
ckpt edit layers.safetensors -n --json -e 'unstack cube -> c.{i}' -e 'drop s' -o out.pt | tr '{' '\n'
ckpt edit layers.safetensors -f -o - -e 'drop e.*' | wc -c
ckpt edit data/train.pt --root auto -n -e 'rename ^module\. =>' -e 'cast fc.* f16' -e 'pad fc.bias dim 0 to 12 with 1'
# values, _metadata and ties stay
ckpt edit -q data/train.pt -o out.pt -e 'split *.module.fc.weight dim 0 -> *.module.fc.a, *.module.fc.b'
ckpt diff data/train.pt out.pt
# a and b are one tensor, and stay one
ckpt edit -q corpus/torch/t26/tied.pt -o tied.pt -e 'keep ?' -e 'reshape /[ab]/ [4, 3] ; transpose'
ckpt ls tied.pt
ckpt edit -q corpus/torch/t26/tied.pt -f -o tied.pt -e 'reshape a [4, 3]' -e 'untie d'
ckpt ls tied.pt
# a tie is reported under its new name, with what it replaces
ckpt edit layers.safetensors -n --json -e 'tie h.0.q h.0.k' -e 'tie s s2 ; reshape [1]' | tr '{' '\n' | tail -n +4
