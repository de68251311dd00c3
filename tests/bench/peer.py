"""peer.py JOB FILE… - does a job of ckpt as a user of torch and safetensors would write it in a few lines."""

import hashlib
import sys

import torch

job, path = sys.argv[1], sys.argv[2]
path2 = sys.argv[3] if len(sys.argv) > 3 else None  # the output, or for diff the other input


def load(file):
    if file.endswith(".safetensors"):
        from safetensors.torch import load_file

        return load_file(file)
    return torch.load(file, map_location="cpu")


if job == "ls":
    for name, tensor in torch.load(path, map_location="cpu", mmap=True).items():
        print(name, tensor.dtype, tuple(tensor.shape))
elif job == "strip":
    weights = load(path)
    torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(weights, "module.")
    torch.save(weights, path2)
elif job == "convert":
    if path2.endswith(".safetensors"):
        from safetensors.torch import save_file

        save_file(load(path), path2)
    else:
        torch.save(load(path), path2)
elif job == "dcp":
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    dcp_to_torch_save(path, path2)
elif job == "cast":
    torch.save({name: tensor.to(torch.bfloat16) for name, tensor in load(path).items()}, path2)
elif job == "average":
    from safetensors.torch import save_file

    models = [load(file) for file in sys.argv[2:-1]]
    try:
        from mergekit.merge_methods import merge_state_dicts

        merged = merge_state_dicts(models, "linear", parameters={"weight": 1.0})
    except ImportError:
        merged = {name: sum(model[name].double() for model in models).div(len(models)).to(models[0][name].dtype)
                  for name in models[0]}
    save_file(merged, sys.argv[-1])
elif job == "lora":
    from safetensors.torch import save_file

    weights, adapter = load(path), load(path2 + "/adapter_model.safetensors")
    for name in weights:
        pair = [adapter.get(f"base_model.model.{name.removesuffix('weight')}lora_{matrix}.weight") for matrix in "BA"]
        if pair[0] is not None:
            weights[name] += (pair[0] @ pair[1] * 2).to(weights[name].dtype)
    save_file(weights, sys.argv[4])
elif job == "diff":
    other = load(path2)
    print(sum(not torch.equal(tensor, other[name]) for name, tensor in load(path).items()))
elif job == "sha256":
    for name, tensor in load(path).items():
        print(name, hashlib.sha256(tensor.contiguous().numpy()).hexdigest())
elif job == "stat":
    for name, tensor in load(path).items():
        print(name, tensor.min(), tensor.max(), tensor.mean(), tensor.std(), tensor.norm(),
              (tensor == 0).sum(), tensor.isnan().sum(), tensor.isinf().sum())
else:
    sys.exit("unknown job " + job)
