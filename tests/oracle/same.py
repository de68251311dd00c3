"""Compares two objects that torch.load returned, in all that a user could see: types, order of keys, `_metadata`,
attributes, values, dtype, shape, stride, offset, device, flags, the bytes of the whole storage, and which tensors share
a storage.
"""
import math

import torch


def storage_bytes(storage):
    return torch.tensor([], dtype=torch.uint8).set_(storage)


class Comparison:
    """Each method returns a text about the first difference between A and B, or None."""

    def __init__(self, rename=None):
        self.address_in_b = {}  # {address of a storage of A: address of the corresponding storage of B}
        self.address_in_a = {}  # {address of a storage of B: address of the corresponding storage of A}
        self.seen = set()  # pairs of the ids of containers that were compared
        self.rename = rename or (lambda path, key: key)

    def compare_storages(self, path, a, b):
        address_a, address_b = a.data_ptr(), b.data_ptr()
        if a.nbytes() != b.nbytes():
            return f"{path}: storage of {a.nbytes()} / {b.nbytes()} bytes"
        if not a.nbytes() or a.device.type == "meta":
            return None
        if self.address_in_b.setdefault(address_a, address_b) != address_b or \
                self.address_in_a.setdefault(address_b, address_a) != address_a:
            return f"{path}: shared differently"
        return None if torch.equal(storage_bytes(a), storage_bytes(b)) else f"{path}: different bytes"

    def compare_members(self, path, a, b, names):
        """Compares the attributes NAMES, or what they return if they are methods."""
        for name in names:
            member_a, member_b = (m() if callable(m) else m for m in (getattr(a, name), getattr(b, name)))
            found = self.compare(f"{path}.{name}", member_a, member_b)
            if found:
                return found
        return None

    def compare_tensors(self, path, a, b):
        for attribute in ("dtype", "layout", "requires_grad", "is_quantized", "is_nested", "device"):
            if getattr(a, attribute) != getattr(b, attribute):
                return f"{path}: {attribute} {getattr(a, attribute)} / {getattr(b, attribute)}"
        if a.is_nested:
            return self.compare_members(path, a, b, ["values", "offsets"] if a.layout == torch.jagged else
                                        ["_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets"])
        if a.shape != b.shape:
            return f"{path}: shape {tuple(a.shape)} / {tuple(b.shape)}"
        if a.layout == torch.sparse_coo:
            return self.compare_members(path, a, b, ["_indices", "_values", "is_coalesced"])
        if a.layout in (torch.sparse_csr, torch.sparse_bsr):
            return self.compare_members(path, a, b, ["crow_indices", "col_indices", "values"])
        if a.layout in (torch.sparse_csc, torch.sparse_bsc):
            return self.compare_members(path, a, b, ["ccol_indices", "row_indices", "values"])
        if hasattr(a, "_local_tensor"):
            return self.compare_members(path, a, b, ["_local_tensor"]) or self.compare_values(path, str(a._spec), str(b._spec))
        for attribute in ("stride", "storage_offset", "is_conj", "is_neg"):
            if getattr(a, attribute)() != getattr(b, attribute)():
                return f"{path}: {attribute} {getattr(a, attribute)()} / {getattr(b, attribute)()}"
        if a.is_quantized:
            names = ["q_scale", "q_zero_point"]
            if a.qscheme() != b.qscheme():
                return f"{path}: qscheme"
            if "channel" in str(a.qscheme()):
                names = ["q_per_channel_scales", "q_per_channel_zero_points", "q_per_channel_axis"]
            found = self.compare_members(path, a, b, names)
            if found:
                return found
        return self.compare_storages(path, a.untyped_storage(), b.untyped_storage())

    def compare_mappings(self, path, a, b):
        want = [self.rename(path, k) for k in a]
        if [repr(k) for k in want] != [repr(k) for k in b]:
            missing, unexpected = [k for k in want if k not in b][:2], [k for k in b if k not in want][:2]
            return f"{path}: keys {missing} / {unexpected}, or their order"
        for (key, value_a), value_b in zip(a.items(), b.values()):
            found = self.compare(f"{path}.{key}", value_a, value_b)
            if found:
                return found
        return None

    def compare_attributes(self, path, a, b):
        attributes_a, attributes_b = dict(getattr(a, "__dict__", {})), dict(getattr(b, "__dict__", {}))
        want, got = attributes_a.pop("_metadata", None), attributes_b.pop("_metadata", None)
        if want is not None and type(want) is not type(got):
            return f"{path}: _metadata is {type(got)}"
        want = want and {self.rename(path + "._metadata", key): value for key, value in want.items()}
        if want != got or list(want or ()) != list(got or ()):
            return f"{path}: _metadata"
        return self.compare_mappings(path + ".__dict__", attributes_a, attributes_b)

    def compare_values(self, path, a, b):
        if isinstance(a, float) and math.isnan(a) and math.isnan(b):
            return None
        try:
            return None if a == b or repr(a) == repr(b) else f"{path}: {a!r} / {b!r}"
        except Exception:
            return None if repr(a) == repr(b) else f"{path}: {a!r} / {b!r}"

    def compare(self, path, a, b):
        if type(a) is not type(b):
            return f"{path}: {type(a).__name__} / {type(b).__name__}"
        if (id(a), id(b)) in self.seen:
            return None
        if isinstance(a, torch.Tensor):
            return self.compare_tensors(path, a, b)
        if isinstance(a, (torch.UntypedStorage, torch.TypedStorage)):
            untyped_a, untyped_b = (s.untyped() if hasattr(s, "untyped") else s for s in (a, b))
            return self.compare_storages(path, untyped_a, untyped_b)
        if not isinstance(a, (dict, list, tuple)):
            return self.compare_values(path, a, b)
        self.seen.add((id(a), id(b)))
        if isinstance(a, dict):
            return self.compare_mappings(path, a, b) or self.compare_attributes(path, a, b)
        if len(a) != len(b):
            return f"{path}: {len(a)} / {len(b)} items"
        for i, (item_a, item_b) in enumerate(zip(a, b)):
            found = self.compare(f"{path}.{i}", item_a, item_b)
            if found:
                return found
        return None


def difference(a, b, rename=None):
    """Returns the first difference of B from A, or None. With RENAME, B must have the key RENAME(path, key) for each key
    of A."""
    return Comparison(rename).compare("root", a, b)
