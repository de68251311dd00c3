"""mkchunks.py FOLDER - writes HDF5 files of 2^31 zeros to FOLDER. Needs h5py and numpy. This makes chunks.tar.gz of them:
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf - *.h5 | gzip -9n"""
import sys
import zlib

import h5py
import numpy as np

ROWS = (16, 1 << 16)  # a chunk of 2^20 elements: complete rows of the tensor
COLUMNS = (1 << 15, 32)  # complete columns


def write_zeros(path, columns, chunk, chunks):
    """Writes a tensor of 2^15 rows and COLUMNS columns, divided into CHUNK; the first CHUNKS of them are stored."""
    shape = (1 << 15, columns)
    with h5py.File(path, "w") as file:
        data = file.create_dataset("w", shape, "u1", chunks=chunk, compression="gzip", compression_opts=9)
        zeros = zlib.compress(bytes(chunk[0] * chunk[1]), 9)
        for index in list(np.ndindex(shape[0] // chunk[0], shape[1] // chunk[1]))[:chunks]:
            data.id.write_direct_chunk((index[0] * chunk[0], index[1] * chunk[1]), zeros)


if __name__ == "__main__":
    write_zeros(f"{sys.argv[1]}/rows.h5", 1 << 16, ROWS, None)
    write_zeros(f"{sys.argv[1]}/unallocated.h5", 1 << 16, COLUMNS, 1)
