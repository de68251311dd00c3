# sanitize obeys --strict, --json, --dry-run and --root, writes torch and safetensors, and writes nothing if it refuses.
f=corpus/torch/t26/numpy.pt
ckpt sanitize --strict $f -o a.pt; echo $?; ls a.pt 2>/dev/null
ckpt sanitize -n $f -o a.pt; ls a.pt 2>/dev/null
ckpt sanitize --json $f -o a.pt
ckpt sanitize a.pt -o b.pt && ckpt diff a.pt b.pt && ckpt sanitize b.pt -o b2.pt && cmp b.pt b2.pt
ckpt sanitize $f -o a.pt; echo $?
ckpt sanitize --strict data/train.pt -o c.pt && ckpt diff data/train.pt c.pt
ckpt sanitize data/train.pt -o d.safetensors 2>/dev/null
ckpt sanitize --root scheduler --to torch-zip data/train.pt -o - | ckpt ls --values -
ckpt sanitize corpus/torch/t26/quant_per_tensor.pt -o e.safetensors; echo $?
ckpt sanitize corpus/torch/badexp/23_bogus_loc.pt -o g.pt; echo $?
ckpt sanitize $f; echo $?
