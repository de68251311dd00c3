# If the names differ by a prefix alone, diff prints a hint, and the option or command in it makes them equal.
ckpt convert -q data/train.pt w.safetensors
ckpt strip -q --auto w.safetensors -o s.safetensors
ckpt diff w.safetensors s.safetensors | tail -n 1
ckpt diff --ignore-prefix=module. w.safetensors s.safetensors
ckpt diff w.safetensors data/train.pt | tail -n 1
ckpt diff --root=state_dict w.safetensors data/train.pt
ckpt diff --json s.safetensors w.safetensors | grep -o '"renamed_prefix":[^}]*}'
ckpt rename -q -s 'fc=>head' s.safetensors -o h.safetensors
ckpt diff --json s.safetensors h.safetensors | grep -o '"renamed_prefix":[^,]*'
ckpt diff h.safetensors s.safetensors | tail -n 1
ckpt rename -q -s '^=>a b;$(c).' s.safetensors -o odd.safetensors
ckpt diff odd.safetensors s.safetensors | tail -n 1
# the hint also comes with a root, with --keys-only, and if values differ
ckpt diff --root=state_dict data/train.pt s.safetensors | tail -n 1
ckpt ls s.safetensors >keys.txt
ckpt diff --keys-only w.safetensors keys.txt | tail -n 1
ckpt diff --keys-only --ignore-prefix=module. w.safetensors keys.txt
ckpt convert -q --cast=f16 s.safetensors half.safetensors
ckpt diff --ignore-dtype w.safetensors half.safetensors | tail -n 1
# names that differ in another way do not hide the prefix, and the second line of the hint gives most their names
echo head.weight >>keys.txt
ckpt diff --keys-only w.safetensors keys.txt | tail -n 1
sed '/bn1.bias/d' keys.txt >fewer.txt
ckpt diff --keys-only w.safetensors fewer.txt | tail -n 1
ckpt strip module. w.safetensors -o renamed.safetensors
ckpt diff --keys-only renamed.safetensors fewer.txt
ckpt diff --keys-only fewer.txt data/train.pt | tail -n 1
ckpt convert --root=state_dict.module data/train.pt -o renamed.pt
ckpt diff --keys-only fewer.txt renamed.pt
# a list of names may be the side with the prefix
sed 's/^/net./' fewer.txt | ckpt diff --keys-only s.safetensors - | tail -n 1
ckpt add net. s.safetensors -o renamed-2.safetensors
sed 's/^/net./' fewer.txt | ckpt diff --keys-only renamed-2.safetensors -
# the weights of a training checkpoint
sed 's/^/module./' fewer.txt >wrapped.txt
ckpt diff --keys-only data/train.pt wrapped.txt | tail -n 1
ckpt diff --keys-only --root=auto data/train.pt wrapped.txt
# there is no hint if few names have the prefix, or only one
printf 'a.x\na.y\nb\nc\nd\ne\nf\n' >a.txt
printf 'x\ny\ng\nh\ni\nj\nk\n' >b.txt
ckpt diff --keys-only a.txt b.txt | tail -n 1
ckpt diff --keys-only h.safetensors s.safetensors | tail -n 1
printf 'x\n' | ckpt diff --keys-only a.txt - | tail -n 1
# --json has the prefix of the names with --keys-only, and if values differ, too
for options in '' --keys-only; do
    for other in s half; do ckpt diff --json --ignore-dtype $options $other.safetensors w.safetensors | grep -o '"renamed_prefix":[^}]*}'; done
    ckpt diff --json $options h.safetensors w.safetensors | grep -o '"renamed_prefix":[^}]*}'
    ckpt diff --json $options h.safetensors s.safetensors | grep -o '"renamed_prefix":[^,]*'
done 2>/dev/null
