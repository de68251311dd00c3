# A rule about one name of a tied tensor leaves the others as they are; one about several keeps them tied.
. "$TESTS/edit_input.sh"
make_layers
# show FILE - prints shapes and ties
show() { ckpt ls --json "$1" | tr '{' '\n' | sed -n 's/.*"name":"\([^"]*\)".*"shape":\(\[[0-9,]*\]\).*"alias_of":\([^,}]*\).*/\1 \2 \3/p'; }
add_tensor only 3,2 uvwxyz
write_tensors one.safetensors
for rule in 'set a = one.safetensors' 'transpose /[bc]/' 'split a dim 0 sizes 1 2 -> x, y' 'concat a, b dim 0 -> x' 'untie b'; do
    ckpt edit layers.safetensors -q -f --no-sync -o in.pt -e 'keep h.0.q, s' -e 'reshape h.0.q [3, 2] -> a' -e 'tie a b' -e 'tie a c'
    ckpt convert -q -f in.pt in.safetensors 2>/dev/null # records the ties as metadata
    for in in in.pt in.safetensors; do
        echo "# $in: $rule"
        ckpt edit $in -q -f --no-sync -o out.pt -e "$rule" && show out.pt
        ckpt edit $in -q -f --no-sync -o out.safetensors -e "$rule" 2>/dev/null && show out.safetensors
    done
done
