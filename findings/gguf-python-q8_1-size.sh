#!/bin/sh
# gguf 0.19.0 (the package for Python from llama.cpp) counts 40 bytes for a block of Q8_1, ggml itself 36 (two float16 and
# 32 integers of 8 bits; asked of libggml-base in pywhispercpp 1.5.1). Every other type has the same size in both. So
# GGUFReader takes 640 bytes for 16 blocks that ggml wrote as 576. If another tensor follows, there is no error: each row
# of the array is shifted against its block, and the last ones hold numbers of the next tensor. If none follows, the
# file cannot be opened, whatever else is in it. Only its size is wrong: Q8_1 of ggml's own files is sound.
#
# Output seen:
#   sizes that differ: Q8_1 (gguf 40, ggml 36)
#   a Q8_1 tensor before another: 16 rows of 40 bytes; bytes of its own 576, of the other 64
#   a Q8_1 tensor at the end: ValueError
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --only-binary :all: --no-deps pywhispercpp==1.5.1 gguf==0.19.0 numpy==2.4.6 \
    tqdm==4.70.1 pyyaml==6.0.4 requests==2.34.2
cat >"$folder/sizes.py" <<'END'
import ctypes
import glob
import site
import sys

import gguf

kinds = gguf.GGMLQuantizationType
ggml = ctypes.CDLL(glob.glob(site.getsitepackages()[0] + "/libggml-base.so")[0])


class Params(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


def declare(name, result, *arguments):
    function = getattr(ggml, name)
    function.restype, function.argtypes = result, arguments
    return function


pointer = ctypes.c_void_p
type_size = declare("ggml_type_size", ctypes.c_size_t, ctypes.c_int)
init = declare("ggml_init", pointer, Params)
new_tensor = declare("ggml_new_tensor_2d", pointer, pointer, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
set_name = declare("ggml_set_name", pointer, pointer, ctypes.c_char_p)
get_data = declare("ggml_get_data", pointer, pointer)
new_file = declare("gguf_init_empty", pointer)
add_tensor = declare("gguf_add_tensor", None, pointer, pointer)
write_file = declare("gguf_write_to_file", ctypes.c_bool, pointer, ctypes.c_char_p, ctypes.c_bool)


def write(path, *tensors):
    """Lets ggml write TENSORS, each of 16 rows of 32 numbers; all bytes of the first are 1, of the second 2."""
    context, file = init(Params(1 << 20, None, False)), new_file()
    for number, (name, kind, size) in enumerate(tensors, 1):
        tensor = new_tensor(context, kind, 32, 16)
        set_name(tensor, name.encode())
        ctypes.memset(get_data(tensor), number, size)
        add_tensor(file, tensor)
    assert write_file(file, path.encode(), False)


differing = [(kind.name, size, type_size(kind)) for kind, (_, size) in gguf.GGML_QUANT_SIZES.items()
             if size != type_size(kind)]
print("sizes that differ:", *(f"{name} (gguf {size}, ggml {other})" for name, size, other in differing))

blocks, path = ("a", kinds.Q8_1, 16 * 36), sys.argv[1] + "/blocks.gguf"
write(path, blocks, ("b", kinds.F32, 16 * 128))
data = gguf.GGUFReader(path).tensors[0].data
print(f"a Q8_1 tensor before another: {data.shape[0]} rows of {data.shape[1]} bytes; bytes of its own "
      f"{(data == 1).sum()}, of the other {(data == 2).sum()}")
write(path, blocks)
try:
    gguf.GGUFReader(path)
    print("a Q8_1 tensor at the end: opens")
except ValueError:
    print("a Q8_1 tensor at the end: ValueError")
END
"$folder/venv/bin/python" "$folder/sizes.py" "$folder" >"$folder/got" 2>/dev/null
sed -n '/^# Output seen/,/^set/s/^#   //p' "$0" | diff - "$folder/got"
echo 'as seen'
