# torch::save of a C++ optimizer: its states are attributes of modules, in no state_dict()
ckpt ls --values corpus/torch/libtorch215/save_adam.pt
ckpt info corpus/torch/libtorch215/save_adam.pt | sed -n '1,3p'
