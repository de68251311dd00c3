# Rules that do not fit are refused with their place and what to do; nothing is written.
. "$TESTS/edit_input.sh"
make_layers
while IFS= read -r rule; do
    echo "# $rule" >&2
    ckpt edit layers.safetensors -o out.safetensors -e "$rule"
    code=$?
    [ $code = 2 ] && [ ! -e out.safetensors ] || echo "exit $code"
done <<'END'
turn h.0.q
transpose
transpose h.0.q,
transpose h.0.z
transpose *.{i}.?q
transpose cube
transpose cube dims 0
transpose cube dims 0 3
transpose h.0.q, h.0.k
transpose h.{i}.{i}
transpose h.{}.q
transpose h.{i.q
transpose h.[0.q
transpose /(/
transpose h.{a}{b}{c}{d}{e}{f}{g}{h}{i}{j}
transpose h.0.q -> a, b
transpose h.0.q -> h.0.k
transpose h.0.q -> x.{i}
transpose h.0.q -> *
transpose h.0.q -> x y
transpose h.0.q 0 1
permute cube 0 1
permute cube 0 1 1
permute cube
reshape cube [3, -1]
reshape cube [-1, -1]
reshape cube [4
reshape cube [x]
reshape cube
slice cube [0, 0, 0, 0]
slice cube [2]
slice cube [..., ...]
slice cube [::0]
slice s [0]
pad cube dim 0 to 1
pad cube dim 0
pad cube to 3
pad cube dim 0 to 3 with x
pad cube dim 0 to 4000000000000000000
split cube dim 0 -> a, b, c
split cube dim 0 sizes 1 2 -> a, b
split cube dim 0 sizes 1 -> a, b
split cube dim 0
split cube -> a, b
concat h.{i}.q, h.{i}.z dim 0 -> h.{i}.qz
concat h.{i}.q dim 0 -> h.{i}.x
concat h.0.q, cube dim 0 -> x
stack h.{i}.{n} -> x
stack h.{i}.q dim 5 -> x
stack e.{e}.w
stack h.0.{e} -> x
stack *.{e}.w dim 0 -> {e}
unstack cube
unstack cube -> x
unstack s -> s.{i}
unstack cube -> c.{i}.{j}
tie cube s
tie cube cube
cast cube bfloat17
rename x
rename ( => y
set x = nothing.safetensors
set x = layers.safetensors
set x = layers.safetensors:y
reshape cube [$n]
"unfinished
END
# gaps in a stack, two results of one name, a name outside of the mapping
ckpt edit layers.safetensors -o out.safetensors -e 'drop e.3.w' -e 'stack e.{e}.w -> e'
ckpt edit layers.safetensors -o out.safetensors -e 'drop e.0.w' -e 'stack e.{e}.w -> e'
ckpt edit layers.safetensors -o out.safetensors -e 'transpose h.{i}.q -> q'
ckpt edit data/train.pt -o out.pt -e 'transpose state_dict.module.fc.weight -> other.fc'
ckpt edit data/train.pt -o out.pt -e 'transpose *.step'
ckpt edit layers.safetensors -o out.safetensors
ckpt edit layers.safetensors -e 'drop s'
ckpt edit layers.safetensors -o out.safetensors -e 'drop s' -D n
ckpt edit layers.safetensors -o out.safetensors --rules none.txt
printf 'drop s\n\n  drop s\n' >twice.txt
ckpt edit layers.safetensors -o out.safetensors --rules twice.txt
# a parameter that no rule has, a rule without quotes, a mistyped name of another file, one dimension
ckpt edit layers.safetensors -o out.safetensors -e 'drop s' -D heds=4
ckpt edit -o out.safetensors -e drop s layers.safetensors
ckpt edit layers.safetensors -o out.safetensors -e 'set s = data/train.pt:fc.wieght'
ckpt edit data/train.pt -o out.pt -e 'transpose *.fc.bias'
[ ! -e out.safetensors ]
