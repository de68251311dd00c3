"""Makes the checkpoint folders of several trainers for tests/corpus/trainers, and prints what each must contain.

    make_trainers.py OUT

Two processes train a small model by FSDP 2 on gloo. They save it as Accelerate, Lightning, verl and Megatron do. Needs
torch 2.6 or later; if accelerate is installed, its save_state is called as well. For each folder, prints a line of JSON:
the expected content (see tests/corpus/truth).
"""
import argparse
import hashlib
import io
import json
import os
import random
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner, _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

RANKS = 2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 5)
        self.norm = torch.nn.LayerNorm(5)

    def forward(self, x):
        return self.norm(self.fc(x))


def path_below(out, *names):
    """Returns the path of a file below OUT and makes the folder that contains it."""
    path = os.path.join(out, *names)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def write_text(text, *names):
    with open(path_below(*names), "w") as f:
        f.write(text)


def random_states(step):
    """Returns the states of random generators as Accelerate saves them, but only 8 bytes of torch's state."""
    random.seed(0)
    return {"step": step, "random_state": random.getstate()[2], "torch_manual_seed": torch.get_rng_state()[:8].clone()}


def save_accelerate(out, rank, model, optimizer):
    """Saves as utils/fsdp_utils.py does for SHARDED_STATE_DICT, with and without Distributed Checkpoint."""
    dcp.save({"model": model}, checkpoint_id=path_below(out, "accelerate_fsdp", "pytorch_model_fsdp_0", "."))
    dcp.save({"optimizer": optimizer}, checkpoint_id=path_below(out, "accelerate_fsdp", "optimizer_0", "."))
    for folder in ("accelerate_fsdp", "accelerate_ranks"):
        torch.save(random_states(7), path_below(out, folder, f"random_states_{rank}.pkl"))
        if rank == 0:
            torch.save({"last_epoch": 7}, path_below(out, folder, "scheduler.bin"))
    torch.save(model, path_below(out, "accelerate_ranks", f"pytorch_model_fsdp_0_rank{rank}.bin"))
    torch.save(optimizer, path_below(out, "accelerate_ranks", f"optimizer_0_rank{rank}.bin"))


def save_lightning(out, rank, model, optimizer):
    """Saves as pytorch/strategies/fsdp.py does: all but the model and the optimizer is in meta.pt."""
    dcp.save({"model": model, "optimizer_0": optimizer}, checkpoint_id=path_below(out, "lightning_fsdp.ckpt", "."))
    meta = {"epoch": 1, "global_step": 12, "pytorch-lightning_version": "2.6.0", "state_dict_ema": {"w": torch.ones(2)},
            "loops": {"fit_loop": {}}, "lr_schedulers": [{"last_epoch": 1}]}
    if rank == 0:
        torch.save(meta, path_below(out, "lightning_fsdp.ckpt", "meta.pt"))


def save_verl(out, rank, model, optimizer):
    """Saves as utils/checkpoint/fsdp_checkpoint_manager.py and trainer/ppo/ray_trainer.py do."""
    actor = ("verl", "global_step_4", "actor")
    name = f"world_size_{RANKS}_rank_{rank}.pt"
    torch.save(model, path_below(out, *actor, f"model_{name}"))
    torch.save(optimizer, path_below(out, *actor, f"optim_{name}"))
    torch.save({"lr_scheduler": {"last_epoch": 4}, "rng": {"cpu": torch.zeros(8, dtype=torch.uint8)}},
               path_below(out, *actor, f"extra_state_{name}"))
    if rank == 0:
        write_text(json.dumps({"FSDP_version": 2, "world_size": RANKS}), out, *actor, "fsdp_config.json")
        write_text(json.dumps({"model_type": "net"}), out, *actor, "huggingface", "config.json")
        torch.save({"_snapshot": {"_snapshot_step": 4}}, path_below(out, "verl", "global_step_4", "data.pt"))
        write_text("4", out, "verl", "latest_checkpointed_iteration.txt")


def save_megatron(out, rank, mesh):
    """Saves as core/dist_checkpointing does: tensors by flat names, equal layers stacked in one tensor, objects as bytes
    of torch.save. Values that all ranks share are in common.pt, or since 2026 in an object."""
    torch.manual_seed(1)
    qkv = torch.randn(2, 6, 4).bfloat16()
    tensors = {"decoder.layers.self_attention.linear_qkv.weight": distribute_tensor(qkv, mesh, [Shard(1)]),
               "decoder.final_layernorm.weight": distribute_tensor(torch.ones(4).bfloat16(), mesh, [Replicate()]),
               "embedding.word_embeddings.weight": distribute_tensor(torch.randn(8, 4).bfloat16(), mesh, [Shard(0)]),
               "optimizer.state.exp_avg.embedding.word_embeddings.weight": distribute_tensor(torch.randn(8, 4), mesh,
                                                                                             [Shard(0)])}
    common = {"args": argparse.Namespace(num_layers=2, hidden_size=4), "checkpoint_version": 3.0, "iteration": 3,
              "opt_param_scheduler": {"num_steps": 24}}
    for name, objects in (("torch_dist", {}), ("torch_dist_2026", {"common_state/shard_0_1": common})):
        objects["rng_state/shard_0.0_1.2"] = {"torch_rng_state": torch.arange(4, dtype=torch.uint8)}
        state = dict(tensors)
        for key, value in objects.items():
            state[key] = io.BytesIO()
            torch.save([value], state[key])
        folder = path_below(out, name, "iter_0000003", ".")
        dcp.save(state, checkpoint_id=folder,
                 planner=DefaultSavePlanner(flatten_state_dict=False, flatten_sharded_tensors=False))
        if rank == 0:
            backend = {"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch",
                       "common_backend_version": 1}
            write_text(json.dumps(backend), folder, "metadata.json")
            write_text("3", out, name, "latest_checkpointed_iteration.txt")
            if common not in objects.values():
                torch.save(common, path_below(folder, "common.pt"))
    full = {key: t.full_tensor() for key, t in tensors.items()}
    return {**full, "rng_state/shard_0.0_1.2": [{"torch_rng_state": torch.arange(4, dtype=torch.uint8)}]}


def save_rank(rank, out, port):
    """Trains and saves, as process RANK of RANKS, which communicate by PORT."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    net = Net()
    fully_shard(net, mesh=init_device_mesh("cpu", (RANKS,)))
    optim = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net(torch.arange(8.0).reshape(2, 4)).square().sum().backward()
    optim.step()
    model, optimizer = get_model_state_dict(net), get_optimizer_state_dict(net, optim)
    full = {name: t.full_tensor().contiguous() for name, t in model.items()}
    save_accelerate(out, rank, model, optimizer)
    save_lightning(out, rank, model, optimizer)
    save_verl(out, rank, model, optim.state_dict())
    megatron = save_megatron(out, rank, init_device_mesh("cpu", (RANKS,)))
    dist.barrier()
    if rank == 0:
        print_truth(out, full, megatron)
    dist.destroy_process_group()


def tensors_of(value, path=()):
    """Yields the expected path, name, dtype, shape and SHA-256 of each tensor in VALUE."""
    if isinstance(value, torch.Tensor):
        data = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        yield {"path": list(path), "name": ".".join(map(str, path)), "dtype": str(value.dtype).split(".")[1],
               "shape": list(value.shape), "sha256": hashlib.sha256(data).hexdigest()}
    elif isinstance(value, (dict, list, tuple)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from tensors_of(item, (*path, key))


def read_dcp(folder):
    """Reads FOLDER as dcp_to_torch_save does, with Lightning's meta.pt."""
    state = {}
    _load_state_dict(state, storage_reader=dcp.FileSystemReader(folder), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    if os.path.exists(os.path.join(folder, "meta.pt")):
        state.update(torch.load(os.path.join(folder, "meta.pt"), weights_only=False))
    return state


def print_truth(out, full, megatron):
    """Prints the expected content of each folder. FULL and MEGATRON are the unsharded tensors that were saved."""
    states = {"accelerate_fsdp": read_dcp(os.path.join(out, "accelerate_fsdp", "pytorch_model_fsdp_0")),
              "accelerate_ranks": full, "lightning_fsdp.ckpt": read_dcp(os.path.join(out, "lightning_fsdp.ckpt")),
              "verl": full, "torch_dist": megatron, "torch_dist_2026": megatron}
    for name, state in states.items():
        print(json.dumps({"file": f"trainers/{name}", "kind": "trainer", "verdict": "ok",
                          "producer": f"torch {torch.__version__.split('+')[0]}, laid out as the trainer does",
                          "tensors": list(tensors_of(state))}, separators=(",", ":")))


def save_plain(out):
    """Saves by Accelerate's save_state, in one process."""
    try:
        from accelerate import Accelerator
    except ImportError:
        print("accelerate is not installed: no accelerate_plain", file=sys.stderr)
        return
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    accelerator.prepare(net, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1))
    accelerator.save_state(path_below(out, "accelerate_plain"))


if __name__ == "__main__":
    save_plain(sys.argv[1])
    torch.multiprocessing.spawn(save_rank, (sys.argv[1], random.randrange(20000, 40000)), nprocs=RANKS)
