# TensorFlow checkpoints are converted to other formats with the same tensors; messages list the tensors that the output cannot hold.
tensorflow=corpus/tensorflow
ckpt convert $tensorflow/v2/slices -o slices.safetensors
ckpt diff $tensorflow/v2/slices slices.safetensors
ckpt convert $tensorflow/v1/slices.ckpt -o slices.npz
ckpt diff $tensorflow/v1/slices.ckpt slices.npz
ckpt convert $tensorflow/emulated/bigendian -o big.pt
ckpt diff $tensorflow/emulated/bigendian big.pt
ckpt convert $tensorflow/obj/write -o model.safetensors
ckpt convert --drop model/tup/0/.ATTRIBUTES/VARIABLE_VALUE --strict $tensorflow/obj/write -o model.safetensors
ckpt convert --drop model/tup/0 --names=object $tensorflow/obj/write -o model.safetensors
ckpt diff --names=object $tensorflow/obj/write model.safetensors
ckpt convert --drop model/tup/0 --names=variable --json $tensorflow/obj/write -o model.pt
ckpt ls model.pt
ckpt convert $tensorflow/v2/dtypes -o dtypes.pt
ckpt strip --allow-none leaf $tensorflow/v2/names -o names.pt
