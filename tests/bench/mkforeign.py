"""mkforeign.py - writes checkpoints for mkgrowth.py byte by byte, in formats of libraries that it does not need. The
readers in lib/format describe these formats. ARRAYS are arrays of float32 by their names."""
import json
import os
import struct
import zlib

import msgpack
from mkother import message

SIZE = struct.Struct("<Q")


def write_file(path, *parts):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"".join(parts))


def write_mxnet(path, arrays):
    parts = [struct.pack("<QQQ", 0x112, 0, len(arrays))]
    for a in arrays.values():
        dense, cpu, device, float32 = 0, 1, 0, 0
        parts += [struct.pack("<IiI", 0xF993FAC9, dense, a.ndim), struct.pack(f"<{a.ndim}q", *a.shape),
                  struct.pack("<iii", cpu, device, float32), a.tobytes()]
    parts.append(SIZE.pack(len(arrays)))
    for name in arrays:
        parts += [SIZE.pack(len(name)), name.encode()]
    write_file(path, *parts)


def write_mindspore(path, arrays):
    tensors = [message(*[(1, n) for n in a.shape], (2, b"Float32"), (3, a.tobytes())) for a in arrays.values()]
    write_file(path, *[message((1, message((1, name.encode()), (2, t)))) for name, t in zip(arrays, tensors)])


def write_openvino(path, arrays):
    """Writes PATH.xml and PATH.bin."""
    layers, offset = [], 0
    for i, (name, a) in enumerate(arrays.items()):
        shape = ", ".join(map(str, a.shape))
        layers.append(f'<layer id="{i}" name="{name}" type="Const" version="opset1">\n'
                      f'<data element_type="f32" shape="{shape}" offset="{offset}" size="{a.nbytes}" />\n</layer>\n')
        offset += a.nbytes
    write_file(f"{path}.bin", *[a.tobytes() for a in arrays.values()])
    write_file(f"{path}.xml", f'<?xml version="1.0"?>\n<net name="net" version="11">\n<layers>\n{"".join(layers)}</layers>\n'
               '<edges>\n</edges>\n<rt_info />\n</net>\n'.encode())


def paddle_variable(a):
    float32 = 5
    description = message((1, float32), *[(2, n) for n in a.shape])
    return struct.pack("<IQII", 0, 0, 0, len(description)) + description + a.tobytes()


def paddle_program(names):
    """Returns a ProgramDesc with the parameters NAMES."""
    dense_tensor = message((1, 7))
    variables = [(3, message((1, name.encode()), (2, dense_tensor), (3, 1))) for name in names]
    return message((1, message((1, 0), (2, 0), *variables)))


def write_paddle(path, arrays):
    """Writes PATH.pdmodel and PATH.pdiparams, as Paddle 2 does."""
    write_file(f"{path}.pdmodel", paddle_program(arrays))
    write_file(f"{path}.pdiparams", *[paddle_variable(arrays[name]) for name in sorted(arrays)])


def write_paddle3(path, arrays):
    """Writes PATH.json and PATH.pdiparams, as Paddle 3 does."""
    operations = [{"#": "p", "A": [0, 1, 1, name], "DA": [], "O": {"%": i, "TT": {"#": "0.t_dtensor"}}, "OA": [1, 0, 1]}
                  for i, name in enumerate(arrays)]
    block = {"#": "block_0", "args": [], "ops": operations}
    program = {"base_code": {"magic": "pir", "trainable": True, "version": 4},
               "program": {"regions": [{"#": "region_0", "blocks": [block]}]}}
    write_file(f"{path}.json", json.dumps(program).encode())
    write_file(f"{path}.pdiparams", *[paddle_variable(arrays[name]) for name in sorted(arrays)])


def write_fluid(folder, arrays):
    """Writes a folder with __model__ and a file for each variable."""
    write_file(f"{folder}/__model__", paddle_program(arrays))
    for name, a in arrays.items():
        write_file(f"{folder}/{name}", paddle_variable(a))


def write_tensorizer(path, arrays):
    entries, body = [], []
    entries_size = sum(len(n) + 2 + 1 + 4 + 1 + 4 * a.ndim + 24 for n, a in arrays.items())
    offset = 73 + entries_size
    for name, a in arrays.items():
        key = struct.pack("<H", len(name)) + name.encode()
        dtype_and_shape = b"\3<f4" + struct.pack(f"<B{a.ndim}I", a.ndim, *a.shape)
        module = kind = 0
        header = struct.pack("<HB", module, kind) + key + dtype_and_shape
        size = 8 + len(header) + 9 + 8
        header = SIZE.pack(size) + header
        length = SIZE.pack(a.nbytes)
        crc = zlib.crc32(header + b"\7\0\1\0\4\0\0\0\0" + length + a.tobytes())
        body += [header, b"\7\0\1\0\4", struct.pack("<I", crc), length, a.tobytes()]
        entries += [key, bytes([kind]), dtype_and_shape, struct.pack("<QQQ", offset, offset + size, a.nbytes)]
        offset += size + a.nbytes
    write_file(path, struct.pack("<5sI32x16xQQ", b"|TZR|", 1, len(arrays), entries_size), *entries, *body)


def write_thinc(path, arrays):
    """Writes a model whose nodes have two parameters each."""
    described = [{"nd": True, "type": "<f4", "kind": "", "shape": a.shape, "data": a.tobytes()} for a in arrays.values()]
    params = [{"W": w, "b": b} for w, b in zip(described[::2], described[1::2])]
    nodes = [{"index": i, "name": "linear", "dims": {"nO": 2, "nI": 3}, "refs": {}} for i in range(len(params))]
    model = {"nodes": nodes, "attrs": [{} for _ in nodes], "params": params, "shims": [[] for _ in nodes]}
    write_file(path, msgpack.packb(model))


def write_torchsnapshot(folder, arrays):
    """Writes a snapshot with a file for each tensor."""
    manifest = {"0/model": {"type": "OrderedDict", "keys": list(arrays)}}
    for name, a in arrays.items():
        location = f"0/model/{name}"
        manifest[location] = {"type": "Tensor", "location": location, "serializer": "buffer_protocol",
                              "dtype": "torch.float32", "shape": a.shape, "replicated": False, "byte_range": None}
        write_file(f"{folder}/{location}", a.tobytes())
    text = json.dumps({"version": "0.1.0", "world_size": 1, "manifest": manifest}, indent=2)
    write_file(f"{folder}/.snapshot_metadata", text.encode())


def write_all(folder, arrays):
    write_mxnet(f"{folder}/model.params", arrays)
    write_mindspore(f"{folder}/mindspore.ckpt", arrays)
    write_openvino(f"{folder}/openvino", arrays)
    write_paddle(f"{folder}/paddle2", arrays)
    write_paddle3(f"{folder}/paddle3", arrays)
    write_fluid(f"{folder}/fluid", arrays)
    write_tensorizer(f"{folder}/model.tensors", arrays)
    write_thinc(f"{folder}/thinc.bin", arrays)
    write_torchsnapshot(f"{folder}/snapshot", arrays)
