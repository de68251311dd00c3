# --compress writes a .npz with the same arrays for any number of threads; other formats are refused.
ckpt convert -q --root auto data/train.pt stored.npz
ckpt convert -q --compress --root auto -j1 data/train.pt small.npz
ckpt diff stored.npz small.npz && ckpt verify small.npz
ckpt convert -q --compress --root auto -j4 data/train.pt again.npz && cmp small.npz again.npz
[ $(wc -c <small.npz) -lt $(wc -c <stored.npz) ] && echo smaller
ckpt convert --compress --cast f16 --root auto data/train.pt half.npz | cut -d, -f1
ckpt convert -q --cast f16 --root auto data/train.pt half.pt && ckpt diff half.pt half.npz
ckpt convert -q --compress --to npz --root auto data/train.pt -o - | ckpt diff - stored.npz
printf '\10\0\0\0\0\0\0\0{}      ' >empty.safetensors
ckpt convert --compress empty.safetensors empty.npz && ckpt verify empty.npz
ckpt convert --compress stored.npz x.safetensors
ckpt convert --compress stored.npz x.npy
ckpt convert -n --compress stored.npz x.npz
ls
