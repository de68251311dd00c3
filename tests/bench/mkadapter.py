"""mkadapter.py BASE FOLDER RANK - makes an adapter of peft, with float32 matrices of RANK, for all matrices of BASE, a
safetensors file."""
import array
import json
import os
import random
import struct
import sys

base, folder, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(base, "rb") as file:
    tensors = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
tensors.pop("__metadata__", None)
rng = random.Random(1)
numbers = array.array("f", (rng.gauss(0, 0.02) for _ in range(65521)))
header, data = {}, bytearray()


def add(name, shape):
    """Adds a tensor of SHAPE."""
    count = shape[0] * shape[1]
    begin = len(data)
    data.extend((numbers * (count // len(numbers) + 1))[:count].tobytes())
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}


for name, tensor in tensors.items():
    if len(tensor["shape"]) == 2 and name.endswith(".weight"):
        module, (out, inputs) = name[:-len(".weight")], tensor["shape"]
        add(f"base_model.model.{module}.lora_A.weight", [rank, inputs])
        add(f"base_model.model.{module}.lora_B.weight", [out, rank])
os.makedirs(folder, exist_ok=True)
text = json.dumps(header).encode()
with open(os.path.join(folder, "adapter_model.safetensors"), "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
with open(os.path.join(folder, "adapter_config.json"), "w") as file:
    json.dump({"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "bias": "none"}, file)
