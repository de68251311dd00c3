"""Deep-learning checkpoints of any format, without running anything in them.

    with libckpt.open("model.pt") as file:
        file["fc.weight"]            # a NumPy array over the mapped file
        file.torch("fc.weight")      # a torch tensor
        file.table()                 # columns for pandas.DataFrame
    libckpt.save({"w": array}, "out.safetensors")
    libckpt.convert("model.pt", output="model.safetensors")

The functions named after commands run `ckpt`, and return its JSON.
"""

from ._commands import add, binary, convert, diff, doctor, edit, hash, info, mem, rename, run, scan, stat, strip
from ._commands import tree, verify
from ._file import File, Slice, open
from ._library import Error, version
from ._remote import Remote
from ._save import save

__version__ = version()
Error.__module__ = File.__module__ = Slice.__module__ = Remote.__module__ = __name__

__all__ = (
    "Error File Remote Slice add binary convert diff doctor edit hash info mem open rename run save scan stat strip tree "
    "verify"
).split()
