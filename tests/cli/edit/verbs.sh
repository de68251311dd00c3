# Each verb moves letters to where torch moves elements.
. "$TESTS/edit_input.sh"
make_layers
# edit RULES - applies the rules, which | divides, and prints the tensors, without those that $hidden matches
edit()
{
    echo "# $1"
    echo "$1" | tr '|' '\n' | ckpt edit -q -f --no-sync layers.safetensors -o out.safetensors --rules /dev/stdin &&
        letters out.safetensors | grep -v "$hidden"
}
letters layers.safetensors
hidden='^[ec]'
edit 'transpose h.{i}.q'
edit 'concat h.{i}.q, h.{i}.k dim 0 -> h.{i}.qk'
edit 'concat h.{i}.q, h.{i}.k dim -1 -> h.{i}.qk'
edit 'concat h.0.q, h.0.k, h.0.q dim 0 -> h.0.x|keep h.0.*'
edit 'split h.0.q dim 0 -> h.0.a, h.0.b|split h.1.q dim 1 sizes 1 2 -> h.1.a, h.1.b|drop *.k'
edit 'reshape h.0.* [-1] ; slice [1:5:2]|slice h.1.q [1] ; pad dim 0 to 5 with 45|slice h.1.k [..., -1]'
edit 'keep s, h.0.?|tie h.0.q h.0.tied|untie h.0.tied|rename ^h\. => g.'
hidden='^[hs]'
edit 'stack e.{e}.w -> e'
edit 'stack e.{e}.w dim 1 -> e ; transpose -> t|drop cube'
edit 'permute cube 2 0 1|keep cube'
edit 'unstack cube dim 1 -> c.{i}|drop e.*'
edit 'transpose cube dims 0 2 -> turned|drop e.*'
edit 'drop? nothing|drop /^e\.[0-9]+/'
# a chain reads the same names that one rule after the other finds
ckpt edit -q --no-sync layers.safetensors -o one.safetensors -e 'reshape h.{i}.q [3, 2] ; transpose ; reshape [6]'
ckpt edit -q --no-sync layers.safetensors -o all.safetensors --rules /dev/stdin <<'END'
reshape h.{i}.q [3, $two]   # a parameter
transpose \
    h.{i}.q

reshape "h.{i}.q" [-1]
END
echo $?
ckpt edit -q --no-sync layers.safetensors -o all.safetensors -D two=2 --rules /dev/stdin <<'END'
reshape h.{i}.q [3, $two]   # a parameter
transpose \
    h.{i}.q

reshape "h.{i}.q" [-1]
END
cmp one.safetensors all.safetensors && echo same
