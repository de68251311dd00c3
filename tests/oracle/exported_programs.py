"""Checks that what `ckpt scan` reports of the expressions in a .pt2 is what torch.export.load evaluates.

    exported_programs.py CKPT

A small program is exported, and each of its expressions replaced by one of EXPRESSIONS. Those that run code call a
function of this script, which only records that it was called. The scan must have a finding if it was.
"""
import logging
import os
import subprocess
import sys
import tempfile
import types
import zipfile

import torch

from checks import Checks

CALL = "__import__('ckpt_recorder').record()"
EXPRESSIONS = [None, "s0", "2*s0 + 1", CALL, f"{CALL} + 2", f"(lambda: {CALL})()", f"[{CALL}][0]"]  # None: as exported
was_called = False


def record():
    global was_called
    was_called = True
    return 3


class Twice(torch.nn.Module):
    def forward(self, x):
        return x * 2


def export_program(path):
    batch = torch.export.Dim("batch", min=2, max=64)
    torch.export.save(torch.export.export(Twice(), (torch.ones(4, 3),), dynamic_shapes={"x": {0: batch}}), path)


def replace_expressions(source, target, expression):
    """Copies the archive SOURCE, with EXPRESSION in place of each expr_str; returns how many there are."""
    count = 0
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for member in old.infolist():
            data = old.read(member)
            if member.filename.endswith(".json") and b'"expr_str"' in data:
                parts = data.decode().split('"expr_str": "')
                count += len(parts) - 1
                if expression is not None:
                    parts[1:] = [expression + part[part.index('"'):] for part in parts[1:]]
                data = '"expr_str": "'.join(parts).encode()
            new.writestr(member, data)
    return count


def check_expression(checks, expression):
    """Checks that the report on the program with EXPRESSION agrees with the loader."""
    global was_called
    was_called = False
    count = replace_expressions(checks.path("program.pt2"), checks.path("changed.pt2"), expression)
    checks.expect(count, "the program has expressions")
    scan = subprocess.run([checks.ckpt, "scan", "--sandbox=off", checks.path("changed.pt2")], stdout=subprocess.PIPE,
                          check=False)
    try:
        torch.export.load(checks.path("changed.pt2"))
    except Exception:  # of any type, because what it evaluated before counts
        pass
    checks.expect(scan.returncode == was_called,
                  f"{expression}: scan exits with {scan.returncode}, and the loader called it: {was_called}")


def main(ckpt):
    logging.disable(logging.ERROR)
    sys.modules["ckpt_recorder"] = types.SimpleNamespace(record=record)
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(ckpt, folder)
        export_program(checks.path("program.pt2"))
        for expression in EXPRESSIONS:
            check_expression(checks, expression)
        checks.print_summary("oracle-export")
        return checks.failed > 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
