"""`python -m libckpt` is the command `ckpt`."""

import os
import sys

from . import Error, binary

try:
    program = binary()
    os.execv(program, ["ckpt", *sys.argv[1:]])
except (Error, OSError) as error:
    print(f"ckpt: {error}", file=sys.stderr)
    sys.exit(2)
