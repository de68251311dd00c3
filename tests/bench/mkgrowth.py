"""mkgrowth.py FOLDER - writes the files of growth.tar.gz: FOLDER/few and FOLDER/twice have the same kinds of checkpoints,
of 500 and of 1000 small tensors, in formats that ckpt does not write. Needs torch, numpy, h5py, keras, zarr, joblib,
onnx, orbax and msgpack. In FOLDER, this makes the archive:
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf - few twice | gzip -9n
Some of the libraries write random names; to add a format, extract the archive and add its files to it."""
import argparse
import json
import os
import pickle
import sys
import zipfile

import h5py
import joblib
import keras
import mkchunks
import mkforeign
import mkother
import numpy as np
import onnx
import orbax.checkpoint
import torch
import zarr


def make_arrays(count):
    """Returns COUNT arrays by names of three levels."""
    return {f"model.layers.{i}.{kind}.weight": np.full((2, 3), i, np.float32)
            for i in range(count // 2) for kind in ("up_proj", "down_proj")}


def write_hdf5(path, arrays, version):
    with h5py.File(path, "w", libver=version) as file:
        for name, array in arrays.items():
            file[name.replace(".", "/")] = array


def write_keras(path, arrays):
    layers = [keras.layers.Dense(2, name=f"dense_{i}") for i in range(len(arrays) // 2)]
    model = keras.Sequential([keras.Input((2,))] + layers)
    model.save(path)


def write_zarr(path, arrays, version):
    group = zarr.open_group(path, mode="w", zarr_format=version)
    for name, array in arrays.items():
        group.create_array(name.replace(".", "/"), data=array, compressors=None)


class Holder(torch.nn.Module):
    """A module with a parameter for each array."""

    def __init__(self, arrays):
        super().__init__()
        for name, array in arrays.items():
            self.register_parameter(name.replace(".", "_"), torch.nn.Parameter(torch.from_numpy(array)))

    def forward(self, x):
        return x


def write_trained(path, tensors):
    """Writes a training checkpoint, with the states of AdamW for each parameter."""
    parameters = {name: torch.nn.Parameter(t) for name, t in tensors.items()}
    optimizer = torch.optim.AdamW(parameters.values())
    sum(p.sum() for p in parameters.values()).backward()
    optimizer.step()
    torch.save({"state_dict": {name: p.data for name, p in parameters.items()}, "optimizer": optimizer.state_dict()}, path)


def write_onnx(path, arrays):
    graph = onnx.helper.make_graph([], "graph", [], [], [onnx.numpy_helper.from_array(a, n) for n, a in arrays.items()])
    onnx.save(onnx.helper.make_model(graph), path)


def write_tfjs(folder, arrays):
    """Writes a folder as tensorflowjs does: model.json and the bytes of all weights in one file."""
    os.makedirs(folder)
    weights = [{"name": name, "shape": a.shape, "dtype": "float32"} for name, a in arrays.items()]
    with open(f"{folder}/weights.bin", "wb") as file:
        file.write(b"".join(a.tobytes() for a in arrays.values()))
    with open(f"{folder}/model.json", "w", encoding="utf-8") as file:
        json.dump({"format": "layers-model", "weightsManifest": [{"paths": ["weights.bin"], "weights": weights}]}, file)


def write_archive(path, folder):
    """Writes a zip of the files in FOLDER."""
    with zipfile.ZipFile(path, "w", strict_timestamps=False) as archive:
        for root, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                archive.write(f"{root}/{name}", os.path.relpath(f"{root}/{name}", os.path.dirname(folder)))


def write_deepspeed(folder, tensors, stage):
    """Writes a folder as two ranks of DeepSpeed's ZeRO STAGE do, with the states of AdamW."""
    step, ranks = f"{folder}/global_step1", 2
    os.makedirs(step)
    with open(f"{folder}/latest", "w", encoding="utf-8") as file:
        file.write("global_step1")
    shapes = {name: t.shape for name, t in tensors.items()}
    for rank in range(ranks):
        flat = torch.cat([t.flatten()[rank::ranks] for t in tensors.values()])
        state = {"step": torch.tensor(1.0), "exp_avg": flat.clone(), "exp_avg_sq": flat.clone()}
        base = {"state": {0: state}, "param_groups": [{"lr": 0.1, "params": [0]}]}
        optimizer = {"zero_stage": stage, "partition_count": ranks}
        if stage == 3:
            optimizer |= {"fp32_flat_groups": [flat], "optimizer_state_dict": base}
        else:
            optimizer |= {"single_partition_of_fp32_groups": [flat], "base_optimizer_state": base}
        prefix = f"{step}/zero_pp_rank_{rank}_mp_rank_00"
        torch.save({"optimizer_state_dict": optimizer, "ds_version": "0.19.8"}, f"{prefix}_optim_states.pt")
        model = {"module": {} if stage == 3 else tensors, "buffer_names": [], "param_shapes": [shapes],
                 "shared_params": {}, "dp_world_size": ranks, "mp_world_size": 1, "ds_version": "0.19.8"}
        if stage == 3 or rank == 0:
            torch.save(model, f"{prefix if stage == 3 else step + '/mp_rank_00'}_model_states.pt")


def write_megatron(folder, tensors):
    """Writes a folder as two tensor-parallel ranks of Megatron-LM do, with TENSORS as the weights of its layers."""
    os.makedirs(folder)
    with open(f"{folder}/latest_checkpointed_iteration.txt", "w", encoding="utf-8") as file:
        file.write("100")
    values = list(tensors.values())
    args = argparse.Namespace(num_layers=len(values) // 2, hidden_size=3, padded_vocab_size=4)
    for rank in range(2):
        model = {"embedding.word_embeddings.weight": torch.zeros(2, 3)}
        for i, (fc1, fc2) in enumerate(zip(values[::2], values[1::2])):
            model[f"decoder.layers.{i}.mlp.linear_fc1.weight"] = fc1
            model[f"decoder.layers.{i}.mlp.linear_fc2.weight"] = fc2.T.contiguous()
        os.makedirs(f"{folder}/iter_0000100/mp_rank_0{rank}")
        torch.save({"args": args, "checkpoint_version": 3.0, "iteration": 100, "model": model},
                   f"{folder}/iter_0000100/mp_rank_0{rank}/model_optim_rng.pt")


def write_all(folder, count):
    os.makedirs(folder)
    arrays = make_arrays(count)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    write_hdf5(f"{folder}/earliest.h5", arrays, "earliest")
    write_hdf5(f"{folder}/latest.h5", arrays, "latest")
    write_keras(f"{folder}/model.keras", arrays)
    for version in 2, 3:
        write_zarr(f"{folder}/zarr{version}", arrays, version)
    torch.save(tensors, f"{folder}/legacy.pt", _use_new_zipfile_serialization=False)
    torch.jit.script(Holder(arrays)).save(f"{folder}/script.pt")
    with open(f"{folder}/model.pdparams", "wb") as file:
        pickle.dump(arrays, file, protocol=4)
    joblib.dump(arrays, f"{folder}/model.joblib")
    with orbax.checkpoint.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(os.path.abspath(f"{folder}/orbax"), arrays)
    mkother.NAMES, mkother.COLUMNS = sorted(arrays), 3
    mkother.write_tensorflow(f"{folder}/model.ckpt", 2, bytes(24))
    write_trained(f"{folder}/trained.pt", tensors)
    write_onnx(f"{folder}/model.onnx", arrays)
    write_tfjs(f"{folder}/tfjs", arrays)
    write_archive(f"{folder}/archive.zip", f"{folder}/zarr2")
    for stage in 2, 3:
        write_deepspeed(f"{folder}/zero{stage}", tensors, stage)
    write_megatron(f"{folder}/megatron", tensors)
    mkforeign.write_all(folder, arrays)
    mkchunks.write_zeros(f"{folder}/columns.h5", 2048 * count // 1000, mkchunks.COLUMNS, None)


for name, tensors in ("few", 500), ("twice", 1000):
    write_all(f"{sys.argv[1]}/{name}", tensors)
