"""Checks that ckpt and torch.distributed.checkpoint read the same from checkpoints that either of them has written.

  samples    ckpt reads what dcp_to_torch_save reads, from every sample of the corpus that torch can load
  random     torch's planner and writer save tensors of 1 to 8 ranks, sharded along random dimensions in uneven parts,
             replicated, or empty on some ranks: ckpt reads the tensors as they were before sharding
  written    dcp_to_torch_save loads what --to=dcp writes; so does dcp.load into a dict, into a module, and in two
             processes, each of which loads half of each tensor
  renamed    dcp_to_torch_save loads what `ckpt add` and `ckpt strip` write
"""
import io
import os
import pathlib
import random
import shutil
import subprocess
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import DefaultSavePlanner, FileSystemWriter
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

warnings.filterwarnings("ignore")
sys.modules.setdefault("pathlib._local", pathlib)  # Python 3.13 pickles a path of the metadata by this module
RANDOM_CHECKPOINTS = 500
UNREADABLE = {  # samples that torch 2.15 cannot read, or ckpt rightly refuses
    "unequal",  # pieces overlap with different bytes: torch takes the last
    "dcp_zstd",  # needs a zstd module
    "dcp_safetensors",  # torch writes this form, but does not read it
    "dcp_no_collectives",  # has metadata per rank: torch reads those of rank 0, and leaves other shards uninitialized
}


def element_bytes(t):
    return t.contiguous().view(-1).view(torch.uint8) if t.numel() else t.new_zeros(0, dtype=torch.uint8)


def first_text(texts):
    """Returns the first of TEXTS that is not None, or None."""
    return next((text for text in texts if text), None)


def difference(a, b, path=""):
    """Returns the first difference of B from A, or None. Ignores the order of keys and the sharing of storages."""
    if isinstance(a, torch.Tensor):
        if not isinstance(b, torch.Tensor) or a.dtype != b.dtype or a.shape != b.shape:
            return f"{path}: {getattr(a, 'dtype', a)} {getattr(a, 'shape', '')}, {getattr(b, 'dtype', b)}"
        return None if torch.equal(element_bytes(a.detach()), element_bytes(b.detach())) else f"{path}: different bytes"
    if isinstance(a, dict):
        if not isinstance(b, dict) or set(a) != set(b):
            return f"{path}: keys {sorted(map(str, a))} / {sorted(map(str, b)) if isinstance(b, dict) else b}"
        return first_text(difference(a[key], b[key], f"{path}.{key}") for key in a)
    if isinstance(a, (list, tuple)):
        if type(a) is not type(b) or len(a) != len(b):
            return f"{path}: {a!r} / {b!r}"
        return first_text(difference(item, b[i], f"{path}.{i}") for i, item in enumerate(a))
    both_nan = a != a and b != b
    return None if type(a) is type(b) and (a == b or both_nan) else f"{path}: {a!r} / {b!r}"


def with_text_keys(value):
    """Returns VALUE with its keys converted to str, as torch's planner does."""
    if isinstance(value, dict):
        return {str(key): with_text_keys(item) for key, item in value.items()}
    return [with_text_keys(item) for item in value] if isinstance(value, list) else value


class Ckpt:
    """Runs the program ckpt on files in a temporary folder."""
    def __init__(self, program, folder):
        self.program, self.folder, self.npaths = program, folder, 0

    def path(self, suffix=""):
        """Returns a new path in the folder."""
        self.npaths += 1
        return os.path.join(self.folder, f"dcp{self.npaths}{suffix}")

    def run(self, *args):
        done = subprocess.run([self.program, *args], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())

    def load(self, folder):
        """Converts FOLDER to a .pt file by ckpt, and loads the file."""
        out = self.path(".pt")
        self.run("convert", "--no-sync", folder, "-o", out)
        loaded = torch.load(out, weights_only=False)
        os.remove(out)
        return loaded


def load_embedded(value):
    """Returns VALUE with what torch.load reads in place of each item that Megatron stores as bytes of torch.save."""
    if isinstance(value, dict):
        return {key: load_embedded(item) for key, item in value.items()}
    return torch.load(io.BytesIO(value.getvalue()), weights_only=False) if isinstance(value, io.BytesIO) else value


def load_by_torch(ckpt, folder):
    """Loads FOLDER by torch, with the values that Lightning and Megatron store in a separate file."""
    out = ckpt.path(".pt")
    dcp_to_torch_save(folder, out)
    state = load_embedded(torch.load(out, weights_only=False))
    os.remove(out)
    for name in ("meta.pt", "common.pt"):
        if os.path.exists(os.path.join(folder, name)):
            state |= torch.load(os.path.join(folder, name), weights_only=False)
    return state


# ------------------------------------------------------------------------------------------------- samples

def samples(corpus):
    """Yields the folder of each distributed checkpoint that torch can read."""
    for folder, _, files in sorted(os.walk(corpus)):
        if ".metadata" in files and os.path.basename(folder) not in UNREADABLE:
            yield folder


# Each function wrong_… returns what is wrong, or None.

def wrong_sample(ckpt, folder):
    return difference(load_by_torch(ckpt, folder), ckpt.load(folder))


def wrong_renamed(ckpt, folder):
    added, stripped = ckpt.path(), ckpt.path()
    ckpt.run("add", "added.", folder, "-o", added)
    ckpt.run("strip", "added.", added, "-o", stripped)
    wrong = difference(ckpt.load(added), load_by_torch(ckpt, added))
    return wrong or difference(load_by_torch(ckpt, folder), load_by_torch(ckpt, stripped))


# -------------------------------------------------------------------------------------------------- random

class RankShards:
    """The shards that one rank has of the tensor WHOLE, with the methods that torch's planner calls. Each of BOXES is
    (offsets, sizes), with a number for each dimension."""
    def __init__(self, whole, boxes):
        self.whole, self.boxes = whole, boxes

    def elements(self, offsets, sizes):
        return self.whole[tuple(slice(begin, begin + n) for begin, n in zip(offsets, sizes))]

    def __create_write_items__(self, fqn, _):
        return [WriteItem(index=MetadataIndex(fqn, torch.Size(offsets)), type=WriteItemType.SHARD,
                          tensor_data=TensorWriteData(
                              chunk=ChunkStorageMetadata(offsets=torch.Size(offsets), sizes=torch.Size(sizes)),
                              properties=TensorProperties.create_from_tensor(self.whole), size=self.whole.size()))
                for offsets, sizes in self.boxes]

    def __create_chunk_list__(self):
        return [ChunkStorageMetadata(offsets=torch.Size(offsets), sizes=torch.Size(sizes))
                for offsets, sizes in self.boxes]

    def __get_tensor_shard__(self, index):
        return next(self.elements(offsets, sizes) for offsets, sizes in self.boxes
                    if torch.Size(offsets) == index.offset)


DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int8, torch.uint8, torch.bool,
          torch.complex64, torch.float8_e4m3fn]


def random_tensor(rng):
    shape = [rng.choice([0, 1, 2, 3, 5, 8, 13]) if rng.random() < 0.1 else rng.randint(1, 9)
             for _ in range(rng.randint(0, 4))]
    dtype = rng.choice(DTYPES)
    count = torch.Size(shape).numel()
    # at least one number, because the dtype of torch.tensor([]) is float32
    numbers = torch.tensor([rng.randrange(2 if dtype == torch.bool else 100) for _ in range(max(1, count))])
    t = numbers[:count].to(dtype).reshape(shape)
    return t.transpose(0, -1).contiguous().transpose(0, -1) if len(shape) > 1 and rng.random() < 0.3 else t


def random_ranges(rng, n, count):
    """Returns COUNT ranges (begin, end), of which some may be empty, that divide 0 to N."""
    cuts = sorted(rng.randint(0, n) for _ in range(count - 1))
    return list(zip([0] + cuts, cuts + [n]))


def replaced(numbers, i, number):
    """Returns a copy of NUMBERS in which item I is NUMBER."""
    return [*numbers[:i], number, *numbers[i + 1:]]


def random_boxes(rng, t, ranks):
    """Returns for each rank a list of the boxes of T that it has. T is sharded along one or two dimensions, or
    replicated on some ranks."""
    boxes = [[] for _ in range(ranks)]
    whole = ([0] * t.dim(), list(t.shape))
    if t.dim() == 0 or t.numel() == 0 or rng.random() < 0.2:
        for rank in rng.sample(range(ranks), rng.randint(1, ranks)):
            boxes[rank].append(whole)
        return boxes
    dims = rng.sample(range(t.dim()), min(t.dim(), rng.choice([1, 1, 2])))
    grid = [whole]
    for dim in dims:
        grid = [(replaced(offsets, dim, offsets[dim] + begin), replaced(sizes, dim, end - begin))
                for offsets, sizes in grid for begin, end in random_ranges(rng, t.shape[dim], rng.randint(1, ranks))]
    for offsets, sizes in grid:
        for _ in range(1 if rng.random() < 0.9 else 2):  # some boxes are saved by two ranks
            if 0 not in sizes:
                boxes[rng.randrange(ranks)].append((offsets, sizes))
    if len(dims) == 1 and rng.random() < 0.2:  # a rank also gets an empty box
        end_of_dim = replaced([0] * t.dim(), dims[0], t.shape[dims[0]])
        boxes[rng.randrange(ranks)].append((end_of_dim, replaced(t.shape, dims[0], 0)))
    # a rank can have only one box at each offset
    return [list({tuple(offsets): (offsets, sizes) for offsets, sizes in of_rank}.values()) for of_rank in boxes]


class Planner(DefaultSavePlanner):
    """torch's planner, which also finds the elements of RankShards."""
    def lookup_object(self, index):
        whole = self.state_dict[index.fqn]
        return whole.__get_tensor_shard__(index) if isinstance(whole, RankShards) else super().lookup_object(index)


def save_ranks(path, states, rng):
    """Writes STATES, one for each rank, by torch's planner and writer in a single process."""
    writer = FileSystemWriter(path, single_file_per_rank=rng.random() < 0.7, sync_files=False)
    planners, plans = [], []
    for rank, state in enumerate(states):
        planner = Planner()
        planner.set_up_planner(state, storage_meta=writer.storage_meta(), is_coordinator=rank == 0)
        writer.set_up_storage_writer(rank == 0)
        plans.append(writer.prepare_local_plan(planner.create_local_plan()))
        planners.append(planner)
    plans, metadata = planners[0].create_global_plan(plans)
    plans = writer.prepare_global_plan(plans)
    results = []
    for planner, plan in zip(planners, plans):
        results.append(writer.write_data(planner.finish_plan(plan), planner).wait())
    writer.finish(metadata, results)


def save_random_checkpoint(rng, path):
    """Saves random tensors and values of several ranks to the folder PATH; returns them as they were before sharding."""
    ranks = rng.randint(1, 8)
    model = {f"layer{i}.{rng.choice('abc')}{i}": random_tensor(rng) for i in range(rng.randint(1, 5))}
    values = {"epoch": rng.randrange(9), "name": "x" * rng.randrange(4), "lr": [rng.random()]}
    boxes = {name: random_boxes(rng, t, ranks) for name, t in model.items()}
    states = []
    for rank in range(ranks):
        shards = {name: RankShards(t, boxes[name][rank]) for name, t in model.items() if boxes[name][rank]}
        states.append({"model": shards, **(values if rank == 0 or rng.random() < 0.5 else {})})
    save_ranks(path, states, rng)
    return {"model": model, **values}


def wrong_random(ckpt, seed):
    rng = random.Random(seed)
    path = ckpt.path()
    saved = save_random_checkpoint(rng, path)
    wrong = difference(saved, ckpt.load(path))
    if not wrong and seed % 10 == 0:
        again = ckpt.path()
        ckpt.run("convert", "--no-sync", "--to=dcp", f"--shards={1 + seed % 4}", path, "-o", again)
        wrong = difference(saved, load_by_torch(ckpt, again))
        shutil.rmtree(again)
    shutil.rmtree(path)
    return wrong


# ------------------------------------------------------------------------------------------------- written

def make_module():
    return torch.nn.Sequential(torch.nn.Linear(7, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 4))


def make_state():
    torch.manual_seed(1)
    net = make_module()
    optim = torch.optim.AdamW(net.parameters())
    net(torch.randn(3, 7)).sum().backward()
    optim.step()
    return {"model": net.state_dict(), "optim": optim.state_dict(), "epoch": 3, "empty": {}, "tuple": (1, "a"),
            "pair": (torch.arange(3), torch.ones(2)), "list": [torch.zeros(2), {"x": 1}], "half": torch.ones(5, dtype=torch.bfloat16),
            "f8": torch.ones(3).to(torch.float8_e5m2), "words": torch.arange(4).to(torch.uint16), "none": None}


def find_load_error(saved, path):
    """Checks dcp.load into a dict of the same structure, and into a module."""
    state = {"model": {name: torch.empty_like(t) for name, t in saved["model"].items()}, "epoch": 0}
    dcp.load(state, checkpoint_id=path)
    net = make_module()
    dcp.load({"model": net}, checkpoint_id=path)
    return (difference(saved["model"], state["model"]) or difference(saved["model"], dict(net.state_dict())) or
            (None if state["epoch"] == 3 else f"epoch {state['epoch']}"))


def load_half(rank, rendezvous, path):
    """As process RANK of two, loads half of each tensor of the model, and compares the tensors made up of both halves.
    RENDEZVOUS is a file by which the processes find each other."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    saved = make_state()["model"]
    state = {}
    for name, t in saved.items():
        zeros = torch.zeros_like(t)
        state[name] = distribute_tensor(zeros, mesh, [Shard(t.dim() - 1)]) if t.dim() else zeros
    dcp.load({"model": state}, checkpoint_id=path)
    whole = {name: t.full_tensor() if t.dim() else t for name, t in state.items()}
    wrong = difference(saved, whole)
    dist.barrier()  # neither process ends while the other still reads from it
    return wrong


def find_error_in_two_processes(ckpt, path):
    """Calls load_half in two processes, which run this file as a program (see its end)."""
    rendezvous = ckpt.path()
    processes = [subprocess.Popen([sys.executable, os.path.abspath(__file__), str(rank), rendezvous, path],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(2)]
    printed = [process.communicate(timeout=300) for process in processes]
    return first_text(f"{out} {err[-500:]}" if process.returncode else None
                      for process, (out, err) in zip(processes, printed))


def find_error_of_written(ckpt, shards):
    state, pt, path = make_state(), ckpt.path(".pt"), ckpt.path()
    torch.save(state, pt)
    ckpt.run("convert", "--no-sync", "--to=dcp", f"--shards={shards}", pt, "-o", path)
    return (difference(with_text_keys(state), load_by_torch(ckpt, path)) or find_load_error(state, path) or
            find_error_in_two_processes(ckpt, path))


def outcomes(program, corpus, folder, sample):
    """Yields (name, what is wrong or None) for each case. SAMPLE: only a tenth of the random checkpoints."""
    ckpt = Ckpt(program, folder)
    jobs = [(f"written in {n} files", find_error_of_written, n) for n in (1, 3)]
    jobs += [(f"sample {os.path.relpath(s, corpus)}", wrong_sample, s) for s in samples(corpus)]
    jobs += [(f"renamed {os.path.relpath(s, corpus)}", wrong_renamed, s) for s in samples(corpus)]
    jobs += [(f"random {seed}", wrong_random, seed) for seed in range(RANDOM_CHECKPOINTS // (10 if sample else 1))]
    for name, job, argument in jobs:
        try:
            yield name, job(ckpt, argument)
        except BaseException as e:  # CheckpointException of torch is not derived from Exception
            if isinstance(e, KeyboardInterrupt):
                raise
            yield name, f"{type(e).__name__}: {e}"


if __name__ == "__main__":  # one of the processes of find_error_in_two_processes
    found = load_half(int(sys.argv[1]), sys.argv[2], sys.argv[3])
    print(found or "", flush=True)
    os._exit(1 if found else 0)  # gloo's threads sometimes abort a process that ends as usual
