"""mkdcp.py FOLDER KIND BYTES - writes a Distributed Checkpoint of about BYTES (such as 64M or 1G) as torch does: each
file holds chunks of tensors one after the other, each saved by torch.save, and .metadata describes them. KIND:

    ranks     128 tensors, each sharded along dimension 0 over the files of 8 ranks
    first     4 tensors in one file, each in 64 chunks along the first dimension
    last      the same along the last dimension"""
import io
import os
import pickle
import sys

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties,
                                                   TensorStorageMetadata)

COLUMNS = 1024


class Checkpoint:
    """A checkpoint in FOLDER, whose metadata are collected until write_metadata."""
    def __init__(self, folder):
        os.makedirs(folder)
        self.folder, self.tensors, self.storage_data = folder, {}, {}
        self.file_sizes = {}  # {file: bytes of its chunks so far}

    def add_tensor(self, name, shape):
        """Records a tensor, without chunks."""
        self.tensors[name] = TensorStorageMetadata(TensorProperties(torch.float32), torch.Size(shape), [])

    def add_chunk(self, name, offset, shape, file, length):
        """Records that the next LENGTH bytes of FILE are a chunk of the tensor NAME."""
        chunk = ChunkStorageMetadata(torch.Size(offset), torch.Size(shape))
        chunks = self.tensors[name].chunks
        start = self.file_sizes.get(file, 0)
        self.storage_data[MetadataIndex(name, chunk.offsets, len(chunks))] = _StorageInfo(file, start, length)
        chunks.append(chunk)
        self.file_sizes[file] = start + length

    def write_chunk(self, name, offset, elements, file):
        saved = io.BytesIO()
        torch.save(elements, saved)
        with open(os.path.join(self.folder, file), "ab") as f:
            f.write(saved.getbuffer())
        self.add_chunk(name, offset, elements.shape, file, saved.tell())

    def write_metadata(self):
        with open(os.path.join(self.folder, ".metadata"), "wb") as f:
            pickle.dump(Metadata(self.tensors, {name: (name,) for name in self.tensors}, self.storage_data), f)


def write_tensors(checkpoint, ntensors, rows, nchunks, dim, file_of):
    """Writes NTENSORS tensors of shape (ROWS, COLUMNS), each in NCHUNKS along dimension DIM; chunk I is in the file
    FILE_OF(I)."""
    for number in range(ntensors):
        name = f"model.layers.{number}.mlp.up_proj.weight"
        checkpoint.add_tensor(name, (rows, COLUMNS))
        shape = [rows, COLUMNS]
        shape[dim] //= nchunks
        for i in range(nchunks):
            offset = [0, 0]
            offset[dim] = i * shape[dim]
            checkpoint.write_chunk(name, offset, torch.randn(shape), file_of(i))


def main(folder, kind, size):
    checkpoint = Checkpoint(folder)
    total = int(size[:-1]) * {"M": 1 << 20, "G": 1 << 30}[size[-1]]
    torch.manual_seed(0)
    rows = total // (4 * COLUMNS)  # of all tensors, in float32
    if kind == "ranks":
        write_tensors(checkpoint, ntensors=128, rows=rows // 128 // 8 * 8, nchunks=8, dim=0,
                      file_of=lambda i: f"__{i}_0.distcp")
    else:
        write_tensors(checkpoint, ntensors=4, rows=rows // 4 // 64 * 64, nchunks=64, dim=0 if kind == "first" else 1,
                      file_of=lambda i: "__0_0.distcp")
    checkpoint.write_metadata()  # last: a folder with .metadata is complete for bench/run.sh


main(*sys.argv[1:])
