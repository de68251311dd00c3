# A glob that matches a container selects all in it, its values too; a notice reports a container that --drop empties.
ckpt convert --drop optimizer data/train.pt a.pt; ckpt show a.pt
ckpt convert --drop 'optimizer.*' data/train.pt b.pt; ckpt show b.pt optimizer
ckpt convert --drop epoch --drop scheduler --drop '*bn1' data/train.pt c.pt; ckpt ls --values c.pt | grep -c 'bn1\|epoch\|scheduler'
ckpt convert --drop 'epo?h' data/train.pt d.pt; echo $?
# A root is a path of containers, or a common prefix of the names in one container.
ckpt convert --root state_dict.module.fc data/train.pt e.pt; ckpt ls e.pt
ckpt convert -q data/train.pt f.safetensors; ckpt convert --root module.fc f.safetensors g.safetensors; ckpt ls g.safetensors
ckpt convert --root module.f f.safetensors h.safetensors; echo $?
ckpt strip --auto --drop optimizer --keep '*fc*' data/train.pt -o i.pt; ckpt ls i.pt
ckpt strip --in-place --drop x --auto i.pt; echo $?
