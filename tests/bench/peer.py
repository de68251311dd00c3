"""peer.py JOB FILE… - does a job of ckpt as a user of torch and safetensors would write it in a few lines."""

import hashlib
import sys

import torch

job, path = sys.argv[1], sys.argv[2]
out = sys.argv[3] if len(sys.argv) > 3 else None


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
    torch.save(weights, out)
elif job == "convert":
    if out.endswith(".safetensors"):
        from safetensors.torch import save_file

        save_file(load(path), out)
    else:
        torch.save(load(path), out)
elif job == "dcp":
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    dcp_to_torch_save(path, out)
elif job == "cast":
    torch.save({name: tensor.to(torch.bfloat16) for name, tensor in load(path).items()}, out)
elif job == "diff":
    other = load(out)
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
