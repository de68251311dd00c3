# unflatten divides a dimension, flatten joins some: no element moves.
. "$TESTS/edit_input.sh"
make_layers
ckpt edit layers.safetensors -q -o out.safetensors -e 'unflatten h.{i}.q dim 1 [3, 1] -> h.{i}.x' \
    -e 'flatten cube dims 0 1' -e 'flatten s' -e 'flatten h.{i}.k' -e 'unflatten e.{e}.w dim -1 [-1, 1, 2]' \
    -e 'keep h.*, cube, s, e.0.w'
letters out.safetensors
while IFS= read -r rule; do
    echo "# $rule" >&2
    ckpt edit layers.safetensors -n -e "$rule" >&2
    code=$?
    [ $code = 2 ] || echo "exit $code"
done <<'END'
unflatten cube dim 3 [2]
unflatten cube dim 0 [3]
unflatten cube dim 0 [3, -1]
unflatten cube dim 0 [-1, -1]
unflatten cube dim 0 [0, -1]
unflatten cube dim 0
unflatten cube [2]
unflatten s dim 0 [1]
unflatten cube dim 0 [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]
flatten cube dims 1 0
flatten cube dims 0
flatten cube dims 0 3
flatten s dims 0 0
END
