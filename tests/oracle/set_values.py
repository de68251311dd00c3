"""Compares what `set` of `ckpt edit` makes of values in random checkpoints with the same assignments in Python.

    set_values.py CKPT

MODELS checkpoints of nested dicts, lists, tuples and namespaces, with an optimizer's state, are saved by torch.save. Up to
six values are set, or added to dicts; torch.load reads the result.
"""
import argparse
import collections
import math
import os
import random
import sys

import torch

from checks import check_seeds

MODELS = int(os.environ.get("MODELS", 300))


def random_value(rng):
    """Returns a value, and how a rule spells it."""
    return rng.choice((
        lambda: (rng.randrange(-2**63, 2**64), None), lambda: (rng.uniform(-1, 1) * 10.0 ** rng.randrange(-300, 300), None),
        lambda: (True, "true"), lambda: (False, "False"), lambda: (None, "none"), lambda: (math.inf, "inf"),
        lambda: (-math.inf, "-inf"), lambda: (rng.choice(("", "a b", "1", "é\\n", "x#;,->")), "text")))()


def spell(value, word):
    return f'"{value}"' if word == "text" else word or repr(value)


def random_tree(rng, depth):
    kinds = ("value", "value", "tensor") if not depth else ("value", "dict", "ordered", "list", "tuple", "namespace", "dict")
    kind = rng.choice(kinds)
    if kind == "value":
        return random_value(rng)[0]
    if kind == "tensor":
        return torch.arange(float(rng.randrange(4)))
    items = [random_tree(rng, depth - 1) for _ in range(rng.randrange(1, 4))]
    if kind in ("list", "tuple"):
        return items if kind == "list" else tuple(items)
    keys = [rng.choice((f"k{i}", f"k{i}.x", i)) for i in range(len(items))]
    if kind == "namespace":
        return argparse.Namespace(**{f"n{i}": item for i, item in enumerate(items)})
    return (dict if kind == "dict" else collections.OrderedDict)(zip(keys, items))


def entries(node):
    if isinstance(node, dict):
        return list(node.items())
    if isinstance(node, argparse.Namespace):
        return list(vars(node).items())
    return list(enumerate(node)) if isinstance(node, (list, tuple)) else []


def assign(node, path, value):
    """Returns NODE with VALUE at PATH; tuples are copied."""
    if not path:
        return value
    if isinstance(node, tuple):
        items = list(node)
        items[path[0]] = assign(items[path[0]], path[1:], value)
        return tuple(items)
    if isinstance(node, argparse.Namespace):
        setattr(node, path[0], assign(getattr(node, path[0]), path[1:], value))
    elif len(path) == 1:
        node[path[0]] = value
    else:
        node[path[0]] = assign(node[path[0]], path[1:], value)
    return node


def places(node, path=()):
    """Returns the paths of the values that can be set, and of dicts to which one can be added."""
    values, dicts = [], [path] if isinstance(node, dict) and node else []
    for key, item in entries(node):
        if item is None or isinstance(item, (bool, int, float, str)):
            values.append((*path, key))
        below = places(item, (*path, key))
        values += below[0]
        dicts += below[1]
    return values, dicts


def are_same(left, right):
    if type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    pairs = entries(left), entries(right)
    if pairs[0] or pairs[1]:
        return [k for k, _ in pairs[0]] == [k for k, _ in pairs[1]] and \
            all(are_same(a, b) for (_, a), (_, b) in zip(*pairs))
    return left == right


def check(checks, seed):
    rng = random.Random(seed)
    layer = torch.nn.Linear(2, 2)
    tree = {"t": random_tree(rng, 4), "u": random_tree(rng, 3), "epoch": 3,
            "optimizer": torch.optim.AdamW([{"params": [p]} for p in layer.parameters()]).state_dict()}
    source, out = checks.path("in.pt"), checks.path("out.pt")
    torch.save(tree, source)
    words = []
    for _ in range(rng.randrange(1, 7)):
        values, dicts = places(tree)
        names = collections.Counter(".".join(map(str, path)) for path in values + dicts)
        is_new = rng.randrange(4) == 0
        path = (*rng.choice(dicts), "new") if is_new else rng.choice(values)
        name = ".".join(map(str, path))
        if not is_new and names[name] > 1 or is_new and names[name[:-4]] > 1:
            continue  # another place has the same name
        value, word = random_value(rng)
        tree = assign(tree, path, value)
        words += ["-e", f'set "{name}" = {spell(value, word)}']
    if words:
        done = checks.run("edit", source, "-o", out, *words)
        same = done is not None and are_same(tree, torch.load(out, weights_only=False))
        checks.expect(same, f"seed {seed}: {words[1::2]}")


sys.exit(check_seeds(sys.argv[1], "oracle-set", MODELS, check))
