# convert lists what safetensors cannot hold; with --strict it refuses.
ckpt convert --root '' data/train.pt a.safetensors
ckpt convert --strict --root '' data/train.pt b.safetensors; echo $?
ckpt convert --json -n --root scheduler data/train.pt c.safetensors; echo $?
ckpt convert --json --root optimizer data/train.pt d.safetensors
