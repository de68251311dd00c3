# What shapes and names leave open is a comment with its alternatives, never a rule: names without a common component,
# another vocabulary, what was dropped although something of its size is missing, two places that fit.
. "$TESTS/match_input.sh"
print_blocks()
{
    for layer in 0 1; do
        for name in "$@"; do echo "blocks.$layer.$name.weight 8 8"; done
    done
    echo blocks.1.norm.weight 8
}
print_blocks a b c | write_model abc.safetensors
print_blocks x y z | write_model xyz.safetensors
ckpt match xyz.safetensors abc.safetensors
echo '--- a vocabulary, a head, sizes of 1'
printf '%s\n' 'embed.weight 100 8' 'conv.weight 4 8 1 1' 'body.0.weight 8 8' 'body.1.weight 8 8' 'head.bias 5' |
    write_model small.safetensors
printf '%s\n' 'embed.weight 128 8' 'conv.weight 4 8' 'body.0.weight 8 8' 'body.1.weight 8 8' 'fc.bias 5' |
    write_model large.safetensors
ckpt match large.safetensors small.safetensors
ckpt match --rules -q small.safetensors large.safetensors
mend small.safetensors large.safetensors
echo '--- two places'
printf '%s\n' student.a.weight teacher.a.weight student.b.weight teacher.b.weight | sed 's/$/ 4/' | write_model two.safetensors
printf '%s\n' 'net.a.weight 4' 'net.b.weight 4' | write_model net.safetensors
ckpt match --rules -q two.safetensors net.safetensors
echo '--- names that rules must quote'
printf '%s\n' 'a,b.c#d.weight 4' 'a,b.c*[e].weight 4 2' "a,b.{f}'.weight 4" | write_model odd.safetensors
printf '%s\n' 'net.a,b.c#d.weight 4' 'net.a,b.c*[e].weight 2 4' "net.a,b.{f}'.weight 4" | write_model net.odd.safetensors
ckpt match --rules -q net.odd.safetensors odd.safetensors
mend net.odd.safetensors odd.safetensors
printf '%s\n' 'a.weight 4' | write_model one.safetensors
printf '%s\n' 'a.weight 4' 'a->b.weight 2' '-c.weight 3' | write_model arrow.safetensors
ckpt match --rules -q one.safetensors arrow.safetensors
mend one.safetensors arrow.safetensors
mend odd.safetensors net.odd.safetensors
echo '--- mappings in mappings, which rules of names do not leave'
ckpt ls corpus/flax/lists.msgpack | sed 's/^\([^. ]*\)\./\1q./' >nested.txt
ckpt match -a nested.txt corpus/flax/lists.msgpack
ckpt match --json nested.txt corpus/flax/lists.msgpack | grep -o '"refusal":"[^"]*"'
