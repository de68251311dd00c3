"""mkdcp.py FOLDER KIND BYTES - a Distributed Checkpoint of about BYTES (M, G are 1024s), as torch saves it: items by
torch.save, one after the other in each file, and .metadata by its classes. KIND:

    ranks     128 tensors, each cut along dimension 0 over the files of 8 ranks
    first     4 tensors of one file, each cut in 64 pieces along the first dimension
    last      the same along the last one
    chunks    1,000,000 pieces in 4,096 files without data; BYTES are ignored"""
import io
import os
import pickle
import sys

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties,
                                                   TensorStorageMetadata)

ROW = 1024


class Save:
    def __init__(self, folder):
        os.makedirs(folder)
        self.folder, self.tensors, self.places, self.ends = folder, {}, {}, {}

    def begin(self, name, shape):
        self.tensors[name] = TensorStorageMetadata(TensorProperties(torch.float32), torch.Size(shape), [])

    def place(self, name, offset, shape, file, length):
        """A piece of NAME is the next item, of LENGTH bytes, of FILE."""
        chunk = ChunkStorageMetadata(torch.Size(offset), torch.Size(shape))
        chunks = self.tensors[name].chunks
        start = self.ends.get(file, 0)
        self.places[MetadataIndex(name, chunk.offsets, len(chunks))] = _StorageInfo(file, start, length)
        chunks.append(chunk)
        self.ends[file] = start + length

    def put(self, name, offset, piece, file):
        item = io.BytesIO()
        torch.save(piece, item)
        with open(os.path.join(self.folder, file), "ab") as f:
            f.write(item.getbuffer())
        self.place(name, offset, piece.shape, file, item.tell())

    def end(self):
        with open(os.path.join(self.folder, ".metadata"), "wb") as f:
            pickle.dump(Metadata(self.tensors, {name: (name,) for name in self.tensors}, self.places), f)


def cut(save, tensors, rows, pieces, dim, file_of):
    """TENSORS of ROWS rows, each in PIECES along dimension DIM; piece I is in the file FILE_OF(I)."""
    for t in range(tensors):
        name = f"model.layers.{t}.mlp.up_proj.weight"
        save.begin(name, (rows, ROW))
        shape = [rows, ROW]
        shape[dim] //= pieces
        for i in range(pieces):
            offset = [0, 0]
            offset[dim] = i * shape[dim]
            save.put(name, offset, torch.randn(shape), file_of(i))


def mark_chunks(save):
    """Only sizes of files count for a listing."""
    for t in range(1000):
        save.begin(f"w{t}", (1000, 8))
        for i in range(1000):
            save.place(f"w{t}", (i, 0), (1, 8), f"__{(t * 1000 + i) % 4096}_0.distcp", 1600)
    for file, end in save.ends.items():
        with open(os.path.join(save.folder, file), "wb") as f:
            f.truncate(end)


def main(folder, kind, size):
    save = Save(folder)
    total = int(size[:-1]) * {"M": 1 << 20, "G": 1 << 30}[size[-1]]
    torch.manual_seed(0)
    if kind == "ranks":
        cut(save, 128, total // (128 * 4 * ROW) // 8 * 8, 8, 0, lambda i: f"__{i}_0.distcp")
    elif kind == "chunks":
        mark_chunks(save)
    else:
        cut(save, 4, total // (4 * 4 * ROW) // 64 * 64, 64, 0 if kind == "first" else 1, lambda i: "__0_0.distcp")
    save.end()  # last: the folder is whole


main(*sys.argv[1:])
