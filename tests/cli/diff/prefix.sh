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
# there is no hint if one name differs in another way
echo head.weight >>keys.txt
ckpt diff --keys-only w.safetensors keys.txt | tail -n 1
ckpt diff --keys-only h.safetensors s.safetensors | tail -n 1
