# Names that differ by a prefix alone: the hint, which is right.
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
