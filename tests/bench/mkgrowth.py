"""mkgrowth.py FOLDER - writes the files of growth.tar.gz: FOLDER/few and FOLDER/twice have the same kinds of checkpoints,
of 500 and of 1000 small tensors, in formats that ckpt does not write. Needs torch, numpy, h5py, keras, zarr, joblib,
onnx and orbax."""
import json
import os
import pickle
import sys
import zipfile

import h5py
import joblib
import keras
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


for name, tensors in ("few", 500), ("twice", 1000):
    write_all(f"{sys.argv[1]}/{name}", tensors)
