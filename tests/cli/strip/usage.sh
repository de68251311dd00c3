# For wrong usage of strip the error explains what was expected.
ckpt strip --auto module. data/train.pt -o a.pt; echo $?
ckpt strip data/train.pt -o a.pt; echo $?
ckpt strip --auto --anywhere data/train.pt -o a.pt; echo $?
ckpt strip --atuo data/train.pt; echo $?
ckpt strip --auto=1 data/train.pt; echo $?
ckpt strip --auto data/train.pt -o; echo $?
ckpt strip -x; echo $?
ckpt strip --auto a b c; echo $?
ckpt strip --auto data/train.pt -o a.xyz --to onnx; echo $?
ckpt strip data/train.pt module.; echo $? # the wrong way round
