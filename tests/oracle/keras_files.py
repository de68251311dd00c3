"""Checks that ckpt reads the weights of Keras models as Keras and h5py do.

    keras_files.py CKPT

Keras builds MODELS random networks, some of them with an optimizer, and saves each as .keras, .weights.h5 and .h5.
`ckpt hash` must print each variable of the model, and the names and digests that h5py reads; numpy must load the
weights from the .npz that ckpt makes of the file.
"""
import collections
import hashlib
import io
import json
import logging
import os
import random
import sys
import zipfile

os.environ.setdefault("KERAS_BACKEND", "numpy")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import h5py
import keras
import numpy

from checks import check_seeds, visit_datasets

MODELS = int(os.environ.get("MODELS", 200))
LAYERS = keras.layers
OPTIMIZERS = ["adam", "adamw", "sgd", "rmsprop", "adagrad", "lion", "nadam", "adafactor"]
DTYPES = ["float32", "float32", "float64", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16"]


def add_flat_layers(rng, x, dtype):
    """Returns X after random layers that take vectors."""
    for _ in range(rng.randrange(1, 5)):
        kind = rng.randrange(6)
        if kind < 3:
            x = LAYERS.Dense(rng.randint(1, 9), use_bias=rng.randrange(3) > 0, dtype=dtype)(x)
        elif kind == 3:
            x = rng.choice((LAYERS.BatchNormalization, LAYERS.LayerNormalization))(dtype=dtype)(x)
        elif kind == 4:
            x = LAYERS.PReLU(dtype=dtype)(LAYERS.Dropout(0.5, dtype=dtype)(x))
        else:
            branch = LAYERS.Dense(x.shape[-1], dtype=dtype, name=f"branch_{rng.randrange(10**6)}")(x)
            x = LAYERS.Add(dtype=dtype)([x, branch])
    return x


def random_model(rng):
    keras.utils.clear_session(free_memory=False)
    dtype, kind = rng.choice(DTYPES), rng.randrange(4)
    if kind == 0:
        inputs = keras.Input((6, 6, 2))
        x = rng.choice((LAYERS.Conv2D, LAYERS.SeparableConv2D))(rng.randint(1, 4), 3, dtype=dtype)(inputs)
        x = LAYERS.Flatten(dtype=dtype)(LAYERS.DepthwiseConv2D(2, dtype=dtype)(x))
    elif kind == 1:
        inputs = keras.Input((5,), dtype="int32")
        x = LAYERS.Embedding(7, 4, dtype=dtype)(inputs)
        layer = rng.choice((LAYERS.LSTM, LAYERS.GRU, LAYERS.SimpleRNN))(3, recurrent_initializer="zeros", dtype=dtype)
        x = LAYERS.Bidirectional(layer, dtype=dtype)(x) if rng.randrange(2) else layer(x)
    elif kind == 2:
        inputs = keras.Input((4, 6))
        x = LAYERS.MultiHeadAttention(2, 3, dtype=dtype)(inputs, inputs)
        x = LAYERS.GlobalAveragePooling1D(dtype=dtype)(x)
    else:
        inputs = x = keras.Input((rng.randint(1, 12),))
    model = keras.Model(inputs, add_flat_layers(rng, x, dtype))
    if rng.randrange(2):
        model.compile(rng.choice(OPTIMIZERS), "mse")
        model.optimizer.build(model.trainable_variables)
    for variable in model.variables:
        if keras.backend.standardize_dtype(variable.dtype) in ("float16", "bfloat16", "float32", "float64"):
            values = [rng.uniform(-3, 3) for _ in range(int(numpy.prod(variable.shape, dtype=int)))]
            variable.assign(numpy.array(values).reshape(variable.shape).astype(variable.dtype))
    return model


def save(model, path):
    """Saves MODEL; returns False if Keras cannot, as it can save no .h5 of two variables of one name."""
    try:
        (model.save_weights if path.endswith(".weights.h5") else model.save)(path)
    except ValueError:
        return False
    return True


def describe(dtype, array):
    return dtype, array.shape, hashlib.sha256(numpy.ascontiguousarray(array).tobytes()).hexdigest()


def name_dtype(dtype):
    """Returns the name of DTYPE; h5py writes bfloat16 as opaque bytes."""
    return f"V{dtype.itemsize}" if dtype.kind == "V" or dtype.name == "bfloat16" else dtype.name


def read_by_h5py(path):
    """Returns {name: (dtype, shape, SHA-256)}."""
    if path.endswith(".keras"):
        with zipfile.ZipFile(path) as archive:
            path = io.BytesIO(archive.read("model.weights.h5"))
    with h5py.File(path) as f:
        return {name: describe(d.attrs.get("dtype", name_dtype(d.dtype)), numpy.asarray(d[()]))
                for name, d in visit_datasets(f)}


def read_by_ckpt(checks, path):
    hashed = checks.run("hash", "--json", path)
    tensors = json.loads(hashed.splitlines()[0])["tensors"] if hashed else []
    return {t["name"]: (t["dtype"], tuple(t["shape"]), t["digest"]) for t in tensors}


def list_variables(model, path):
    """Returns how often the file PATH must hold each (dtype, shape, SHA-256) of the variables of MODEL. A .h5 does not
    tell which opaque bytes are bfloat16."""
    variables = list(model.weights)
    if path.endswith(".keras") and getattr(model, "optimizer", None):
        variables += model.optimizer.variables
    arrays = [keras.ops.convert_to_numpy(v.value) for v in variables]
    has_names = path.endswith((".keras", ".weights.h5"))
    return collections.Counter(describe(a.dtype.name if has_names else name_dtype(a.dtype), a) for a in arrays)


def check_npz(checks, path, model, want, title):
    """Checks that the .npz that ckpt makes of the file PATH has all weights of MODEL and only tensors of WANT."""
    out = checks.path("out.npz")
    if checks.run("convert", path, out) is None:
        return checks.expect(False, f"{title}: to .npz")
    with numpy.load(out, allow_pickle=False) as arrays:
        found = {name: hashlib.sha256(arrays[name].tobytes()).hexdigest() for name in arrays.files}
    weights = collections.Counter(describe("", keras.ops.convert_to_numpy(w.value))[2] for w in model.weights)
    good = all(digest == want[name][2] for name, digest in found.items())
    checks.expect(good and not weights - collections.Counter(found.values()), f"{title}: as .npz")


def check_model(checks, seed):
    rng = random.Random(f"keras {seed}")
    model = random_model(rng)
    for suffix in (".keras", ".weights.h5", ".h5"):
        path, title = checks.path("model" + suffix), f"model {seed}{suffix}"
        if not save(model, path):
            continue
        want, found = read_by_h5py(path), read_by_ckpt(checks, path)
        checks.expect(found == want, f"{title}: {[n for n in want if found.get(n) != want[n]]}")
        missing = list_variables(model, path) - collections.Counter(found.values())
        checks.expect(not missing, f"{title}: not found: {list(missing)}")
        if seed % 4 == 0 and all(dtype not in ("bfloat16", "V2") for dtype, _, _ in want.values()):
            check_npz(checks, path, model, want, title)


def main(ckpt):
    logging.getLogger("absl").setLevel(logging.ERROR)  # that .h5 is an old format
    return check_seeds(ckpt, "oracle-keras", MODELS, check_model)


sys.exit(main(sys.argv[1]))
