#!/usr/bin/env python3
"""Writes printed.txt: what Python and torch print of the names and shapes in train.pt, and how load_state_dict
refuses it.

    python3 make_printed.py train.pt printed.txt

A line "== TITLE" begins each text. The file is kept in the repository; nothing here runs in the build or in the tests.
"""
import pprint
import sys
from contextlib import redirect_stdout

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, classes=10, normalize=True):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        if normalize:
            self.bn2 = nn.BatchNorm2d(32)
        self.fc = nn.Linear(32, classes)


def texts(d):
    shapes = {k: v.shape for k, v in d.items()}
    yield "odict_keys", lambda: print(d.keys())
    yield "dict_keys", lambda: print(dict(d).keys())
    yield "list", lambda: print(list(d))
    yield "tuple", lambda: print(tuple(d))
    yield "set", lambda: print(set(d))
    yield "dict of shapes", lambda: print(shapes)
    yield "dict of tuples", lambda: print({k: tuple(v.shape) for k, v in d.items()})
    yield "dict of lists", lambda: print({k: list(v.shape) for k, v in d.items()})
    yield "list of pairs", lambda: print(list(shapes.items()))
    yield "dict_items", lambda: print(shapes.items())
    yield "pretty list", lambda: pprint.pprint(list(d))
    yield "pretty dict", lambda: pprint.pprint(shapes)
    yield "names", lambda: [print(k) for k in d]
    yield "quoted names", lambda: [print(repr(k)) for k in d]
    yield "shapes", lambda: [print(k, v.shape) for k, v in d.items()]
    yield "shapes after tabs", lambda: [print(k, "\t", v.size()) for k, v in d.items()]
    yield "shapes and dtypes", lambda: [print(k, v.size(), v.dtype) for k, v in d.items()]
    yield "dtypes and shapes", lambda: [print(k, v.dtype, v.shape) for k, v in d.items()]
    yield "tuples", lambda: [print(k, tuple(v.shape)) for k, v in d.items()]
    yield "tuples after colons", lambda: [print(f"{k}: {tuple(v.shape)}") for k, v in d.items()]
    yield "lists after colons", lambda: [print(f"{k}: {list(v.shape)}") for k, v in d.items()]
    yield "aligned lists", lambda: [print(f"{k:40}{list(v.shape)}") for k, v in d.items()]
    yield "pairs", lambda: [print(pair) for pair in shapes.items()]
    yield "triples", lambda: [print((k, v.shape, v.dtype)) for k, v in d.items()]
    yield "numbers of elements", lambda: [print(k, v.numel()) for k, v in d.items()]
    yield "numbers with commas", lambda: [print(f"{k}: {v.numel():,}") for k, v in d.items()]
    yield "properties", lambda: [print(k, v.requires_grad, v.dtype, v.numel(), v.shape) for k, v in d.items()]
    yield "counted names", lambda: [print(i, k) for i, k in enumerate(d)]
    yield "counted from 1", lambda: [print(f"{i}: {k}") for i, k in enumerate(d, 1)]
    yield "counted shapes", lambda: [print(i, k, v.shape) for i, (k, v) in enumerate(d.items())]
    torch.set_printoptions(edgeitems=1, threshold=8)
    net = nn.ModuleDict({"module": Net()})
    net.load_state_dict(d)
    tensors = net.state_dict(keep_vars=True)
    meta = net.to_empty(device="meta").state_dict(keep_vars=True)
    yield "state dict", lambda: print(d)
    yield "dict of tensors", lambda: print(dict(d))
    yield "items of tensors", lambda: print(list(d.items()))
    yield "OrderedDict before Python 3.12", lambda: print(f"OrderedDict({list(d.items())})")
    yield "parameters", lambda: print(list(tensors.items()))
    yield "parameters after names", lambda: [print(k, v) for k, v in tensors.items()]
    yield "counted parameters", lambda: [print(i, k, v) for i, (k, v) in enumerate(tensors.items())]
    yield "parameters on meta", lambda: [print(f"{k}: {v}") for k, v in meta.items()]


def refusals(d, whole):
    stripped = {k.removeprefix("module."): v for k, v in d.items()}
    yield "error: whole", Net(), whole
    yield "error: prefix", Net(), d
    yield "error: other", nn.ModuleDict({"net": Net(5, False), "head": nn.Linear(2, 2)}), {
        "net." + k: v for k, v in stripped.items()
    }
    yield "error: shape", Net(5), stripped


checkpoint = torch.load(sys.argv[1], weights_only=True)
with open(sys.argv[2], "w", encoding="utf-8") as out, redirect_stdout(out):
    for title, show in texts(checkpoint["state_dict"]):
        print("==", title)
        show()
    for title, net, state in refusals(checkpoint["state_dict"], checkpoint):
        print("==", title)
        try:
            net.load_state_dict(state)
        except RuntimeError as error:
            print(f"RuntimeError: {error}")
    print("== error: not strict")
    print(Net(10, False).load_state_dict(checkpoint["state_dict"], strict=False))
