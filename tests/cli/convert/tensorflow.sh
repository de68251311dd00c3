# TensorFlow checkpoints are converted to other formats with the same tensors; what the target cannot hold is named.
t=corpus/tensorflow
ckpt convert $t/v2/slices -o slices.safetensors
ckpt diff $t/v2/slices slices.safetensors
ckpt convert $t/v1/slices.ckpt -o slices.npz
ckpt diff $t/v1/slices.ckpt slices.npz
ckpt convert $t/emulated/bigendian -o big.pt
ckpt diff $t/emulated/bigendian big.pt
ckpt convert $t/obj/write -o model.safetensors
ckpt convert --drop model/tup/0/.ATTRIBUTES/VARIABLE_VALUE --strict $t/obj/write -o model.safetensors
ckpt convert --drop model/tup/0 --names=object $t/obj/write -o model.safetensors
ckpt diff --names=object $t/obj/write model.safetensors
ckpt convert --drop model/tup/0 --names=variable --json $t/obj/write -o model.pt
ckpt ls model.pt
ckpt convert $t/v2/dtypes -o dtypes.pt
ckpt strip leaf $t/v2/names -o names.pt
