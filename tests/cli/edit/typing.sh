# What people mistype, or write in another way, is understood or refused with the form of the verb.
. "$TESTS/edit_input.sh"
make_layers
while IFS= read -r rule; do
    echo "# $rule"
    ckpt edit layers.safetensors -n -e "$rule" 2>&1
done <<'END'
concat h.0.q h.0.k dim 0 -> c
split h.0.q dim 0 -> a b
drop s cube
drop ? s
permute cube 0, 1, 2
permute cube (0 1 2)
reshape cube (2, 4)
reshape cube[4, 2]
slice cube[0]
pad cube dim 0 3
pad cube dim=0 to 3
pad cube dim 0 to 3 with
concat h.0.q, h.0.k dim 0
concat h.0.q, h.0.k dim 0 > c
concat h.0.q, h.0.k dim 0->c
rename ^h=>g
rename h.0 -> g.0
tie s, copy
tie s, cube, h.0.q
cast cube int8
drop h.0.q; drop h.0.k;
DROP s
transpos cube
tranpsose cube
unflat cube
sl cube
cat h.0.q, h.0.k dim 0 -> c
turn cube
transposetransposetranspose cube
"drop" s
END
