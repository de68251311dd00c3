"""Deep-learning checkpoints of any format, without running anything in them.

    with libckpt.open("model.pt") as file:
        file["fc.weight"]            # a NumPy array over the mapped file
        file.torch("fc.weight")      # a torch tensor
        file.table()                 # columns for pandas.DataFrame
    libckpt.save({"w": array}, "out.safetensors")
    libckpt.convert("model.pt", output="model.safetensors")

The functions named after commands run `ckpt`, and return its JSON.
"""

from ._commands import add, average, binary, convert, diff, doctor, edit, hash, info, lora, ls, match, mem, merge_parts
from ._commands import meta, parts, rename, run, salvage, sanitize, scan, show, stat, strip, tree, verify
from ._file import File, Slice, open
from ._library import Error, version
from ._remote import Remote
from ._save import save

__version__ = version()
Error.__module__ = File.__module__ = Slice.__module__ = Remote.__module__ = __name__

__all__ = (
    "Error File Remote Slice add average binary convert diff doctor edit hash info lora ls match mem merge_parts meta "
    "open parts rename run salvage sanitize save scan show stat strip tree verify"
).split()
