"""mkother.py tf|h5 FILE BYTES - writes a checkpoint of about BYTES (such as 64M or 1G) in 291 tensors of float32:
tf     FILE.index and FILE.data-00000-of-00001, as TensorFlow's tensor_bundle writes them
h5     HDF5 with a dataset for each tensor, in groups; nothing if h5py is not installed
All tensors have the same random numbers, so that their CRC-32C is computed once."""
import os
import struct
import sys

TENSORS, COLUMNS = 291, 1024
NAMES = sorted(f"model/layer_{i // 9:03}/kernel_{i % 9}" for i in range(TENSORS))


def crc32c_table():
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


def masked_crc32c(data, table=tuple(crc32c_table())):
    """Returns the CRC-32C of DATA, masked as in LevelDB: rotated, plus a constant."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return (crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF


def varint(number):
    out = b""
    while number >= 128:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def message(*fields):
    """Returns a protobuf message of FIELDS (number, value). A value is an int (written as a varint), bytes (a text or a
    message) or (int,) (written as fixed32)."""
    out = b""
    for number, value in fields:
        if isinstance(value, bytes):
            out += varint(number << 3 | 2) + varint(len(value)) + value
        elif isinstance(value, tuple):
            out += varint(number << 3 | 5) + struct.pack("<I", *value)
        else:
            out += varint(number << 3) + varint(value)
    return out


class Table:
    """A file that is a table of LevelDB: not compressed, with complete keys instead of shared prefixes."""

    def __init__(self, path):
        self.file = open(path, "wb")

    def write_block(self, entries):
        """Writes a block of ENTRIES (key, value), and returns its handle: offset and size."""
        body, restarts = b"", []
        for key, value in entries:
            restarts.append(len(body))
            shared = b"\0"  # bytes shared with the previous key: 0
            body += shared + varint(len(key)) + varint(len(value)) + key + value
        restarts = restarts or [0]
        body += struct.pack(f"<{len(restarts)}I", *restarts) + struct.pack("<I", len(restarts))
        handle = varint(self.file.tell()) + varint(len(body))
        block_type = b"\0"  # not compressed
        self.file.write(body + block_type + struct.pack("<I", masked_crc32c(body + block_type)))
        return handle

    def close(self, blocks):
        """Writes the index of BLOCKS, each (last key, handle), and the footer."""
        metaindex = self.write_block([])
        index = self.write_block(blocks)
        self.file.write((metaindex + index).ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57))
        self.file.close()


def write_tensorflow(path, rows, data):
    crc = masked_crc32c(data)
    shape = message(*[(2, message((1, n))) for n in (rows, COLUMNS)])
    entries = [(b"", message((1, 1), (3, message((1, 1)))))]  # BundleHeaderProto: one shard, version 1
    with open(f"{path}.data-00000-of-00001", "wb") as f:
        for name in NAMES:
            # BundleEntryProto: DT_FLOAT, shape, offset, size, crc32c
            entry = message((1, 1), (2, shape), (4, f.tell()), (5, len(data)), (6, (crc,)))
            entries.append((name.encode(), entry))
            f.write(data)
    table = Table(f"{path}.index")  # last: a checkpoint with an index is complete for bench/run.sh
    table.close([(entries[-1][0], table.write_block(entries))])


def write_hdf5(path, rows, data):
    try:
        import h5py
        import numpy
    except ImportError:
        return
    with h5py.File(path + ".part", "w") as f:
        for name in NAMES:
            f[name] = numpy.frombuffer(data, "<f4").reshape(rows, COLUMNS)
    os.rename(path + ".part", path)


def main(kind, path, size):
    rows = int(size[:-1]) * {"M": 1 << 20, "G": 1 << 30}[size[-1]] // (TENSORS * COLUMNS * 4)
    {"tf": write_tensorflow, "h5": write_hdf5}[kind](path, rows, os.urandom(rows * COLUMNS * 4))


if __name__ == "__main__":
    main(*sys.argv[1:])
