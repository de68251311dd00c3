"""mkzero.py FOLDER BYTES - writes a ZeRO-3 checkpoint of eight ranks, of about BYTES (such as 64M or 1G), like
DeepSpeed's runtime/zero/stage3.py. Parameters and Adam's states are random numbers, saved by torch.save."""
import math
import os
import sys

import torch

RANKS, LAYERS = 8, 128


def main(folder, size):
    unit = {"M": 1 << 20, "G": 1 << 30}[size[-1]]
    elements = int(size[:-1]) * unit // (3 * 4 * LAYERS)  # of a parameter: weights, exp_avg, exp_avg_sq in float32
    shapes = {f"model.layers.{i}.mlp.up_proj.weight": torch.Size([elements // 128, 128]) for i in range(LAYERS)}
    partition = sum(math.ceil(shape.numel() / RANKS) for shape in shapes.values())  # elements that a rank has
    step = os.path.join(folder, "global_step1")
    os.makedirs(step)
    model = {"module": {name: torch.empty(0, dtype=torch.bfloat16) for name in shapes}, "buffer_names": [],
             "param_shapes": [shapes], "shared_params": {}, "global_steps": 1}
    for rank in range(RANKS):
        torch.manual_seed(rank)
        state = {"step": torch.tensor(1.0), "exp_avg": torch.randn(partition), "exp_avg_sq": torch.rand(partition)}
        optim = {"partition_count": RANKS, "fp32_flat_groups": [torch.randn(partition)],
                 "optimizer_state_dict": {"state": {0: state}, "param_groups": [{"lr": 0.1, "params": [0]}]}}
        name = f"zero_pp_rank_{rank}_mp_rank_00_"
        torch.save(model, os.path.join(step, name + "model_states.pt"))
        torch.save({"optimizer_state_dict": optim}, os.path.join(step, "bf16_" + name + "optim_states.pt"))
    # last: a folder with `latest` is complete for bench/run.sh
    with open(os.path.join(folder, "latest"), "w", encoding="ascii") as f:
        f.write("global_step1")


main(sys.argv[1], sys.argv[2])
