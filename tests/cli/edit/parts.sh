# Several processes write an edited output as one does; the rules and parameters are of its plan.
. "$TESTS/parts_input.sh"
make_input >in.safetensors
edit() { ckpt edit in.safetensors -q --no-sync -D "n=$1" -e 'reshape b [$n, -1] ; transpose ; reshape [-1]' -e "$2" -o "$3" ${4:+--part $4}; }
edit 10 'reshape a [2, -1] ; split dim 0 -> a, a2' ref.safetensors
for i in 2 0 1; do edit 10 'reshape a [2, -1] ; split dim 0 -> a, a2' out.safetensors $i/3; done
ckpt merge-parts -q --verify out.safetensors && cmp ref.safetensors out.safetensors && echo same
# other parameters make the same header, and other bytes
edit 10 'drop a' other.safetensors 0/2
edit 20 'drop a' other.safetensors 1/2 2>&1 | ids
