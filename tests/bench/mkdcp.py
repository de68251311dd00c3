"""mkdcp.py FOLDER KIND BYTES - writes a Distributed Checkpoint of about BYTES (such as 64M or 1G) as torch does: in each
file the items by torch.save, one after the other, and .metadata. KIND:

    ranks     128 tensors, each sharded along dimension 0 over the files of 8 ranks
    first     4 tensors in one file, each in 64 chunks along the first dimension
    last      the same along the last dimension
    chunks    1,000,000 chunks in 4,096 files without data; BYTES is ignored"""
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
    def __init__(self, folder):
        os.makedirs(folder)
        self.folder, self.tensors, self.storage_data, self.sizes = folder, {}, {}, {}

    def add_tensor(self, name, shape):
        self.tensors[name] = TensorStorageMetadata(TensorProperties(torch.float32), torch.Size(shape), [])

    def add_chunk(self, name, offset, shape, file, length):
        """Records that the next item of FILE, of LENGTH bytes, is a chunk of the tensor NAME."""
        chunk = ChunkStorageMetadata(torch.Size(offset), torch.Size(shape))
        chunks = self.tensors[name].chunks
        start = self.sizes.get(file, 0)
        self.storage_data[MetadataIndex(name, chunk.offsets, len(chunks))] = _StorageInfo(file, start, length)
        chunks.append(chunk)
        self.sizes[file] = start + length

    def write_chunk(self, name, offset, elements, file):
        item = io.BytesIO()
        torch.save(elements, item)
        with open(os.path.join(self.folder, file), "ab") as f:
            f.write(item.getbuffer())
        self.add_chunk(name, offset, elements.shape, file, item.tell())

    def write_metadata(self):
        with open(os.path.join(self.folder, ".metadata"), "wb") as f:
            pickle.dump(Metadata(self.tensors, {name: (name,) for name in self.tensors}, self.storage_data), f)


def write_tensors(checkpoint, tensors, rows, chunks, dim, file_of):
    """Writes as many TENSORS of as many ROWS, each in CHUNKS along dimension DIM; chunk I is in the file FILE_OF(I)."""
    for t in range(tensors):
        name = f"model.layers.{t}.mlp.up_proj.weight"
        checkpoint.add_tensor(name, (rows, COLUMNS))
        shape = [rows, COLUMNS]
        shape[dim] //= chunks
        for i in range(chunks):
            offset = [0, 0]
            offset[dim] = i * shape[dim]
            checkpoint.write_chunk(name, offset, torch.randn(shape), file_of(i))


def add_million_chunks(checkpoint):
    """Makes files of the right size without data, because a listing reads only .metadata."""
    for t in range(1000):
        checkpoint.add_tensor(f"w{t}", (1000, 8))
        for i in range(1000):
            checkpoint.add_chunk(f"w{t}", (i, 0), (1, 8), f"__{(t * 1000 + i) % 4096}_0.distcp", 1600)
    for file, end in checkpoint.sizes.items():
        with open(os.path.join(checkpoint.folder, file), "wb") as f:
            f.truncate(end)


def main(folder, kind, size):
    checkpoint = Checkpoint(folder)
    total = int(size[:-1]) * {"M": 1 << 20, "G": 1 << 30}[size[-1]]
    torch.manual_seed(0)
    if kind == "ranks":
        write_tensors(checkpoint, 128, total // (128 * 4 * COLUMNS) // 8 * 8, 8, 0, lambda i: f"__{i}_0.distcp")
    elif kind == "chunks":
        add_million_chunks(checkpoint)
    else:
        write_tensors(checkpoint, 4, total // (4 * 4 * COLUMNS) // 64 * 64, 64, 0 if kind == "first" else 1, lambda i: "__0_0.distcp")
    checkpoint.write_metadata()  # last, because bench/run.sh takes a folder with it as complete


main(*sys.argv[1:])
