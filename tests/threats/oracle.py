#!/usr/bin/env python3
"""oracle.py CKPT ATTACKS [--changed N] - compares what CPython's unpicklers call with what `ckpt scan` reports.

Every file that ATTACKS makes for a pickle's loader, and N changed copies of each, are read by the unpickler written in
C and by the one in Python, all pickles to the end of the file. Nothing of a file is ever imported or run: find_class
returns an inert class that records its name when it is called, and persistent_load one that does nothing. Each recorded
call must be among the calls and findings of the report. If the result of a call was called, the report must have a
finding.
"""
import io
import json
import os
import pickle
import random
import resource
import subprocess
import sys
import tempfile
import warnings

called = set()


class Inert(type):
    """A class of any name that records each call of it."""

    def __call__(cls, *args, **kwargs):
        called.add(cls.names)
        return object.__new__(cls)


def new(cls, *args, **kwargs):
    called.add(cls.names)
    return object.__new__(cls)


def result_called(self, *args, **kwargs):
    called.add(('?', '?'))
    return self


def lenient(self, name):
    if name in ('append', 'extend', 'add'):
        return lambda *args: None
    raise AttributeError(name)


def inert(module, name):
    return Inert('inert', (), {'names': (module, name), '__new__': new, '__call__': result_called,
                               '__getattr__': lenient, '__setitem__': lambda self, key, value: None})


def unpickler(base):
    class Unpickler(base):
        def find_class(self, module, name):
            if not module:  # Python's import refuses it, too
                raise ValueError(module)
            return inert(module, name)

        def persistent_load(self, pid):
            return inert('?', 'persistent')

    return Unpickler


UNPICKLERS = unpickler(pickle.Unpickler), unpickler(pickle._Unpickler)


def record_calls(data):
    """Returns the names that both unpicklers call until they fail or the file ends."""
    called.clear()
    for kind in UNPICKLERS:
        stream = io.BytesIO(data)
        try:
            warnings.simplefilter('ignore')
            while stream.tell() < len(data):
                kind(stream, encoding='latin1').load()
        except (Exception, RecursionError):
            pass
    return set(called)


def mutated_copies(data, n, chance):
    """Yields N copies of DATA with a few bytes changed, inserted, deleted or copied."""
    opcodes = b'(.0123FIJKLMNPQRSTUVXabcd}eghijl]opqrstu)GBC\x80\x81\x85\x86\x87\x88\x89\x8c\x8f\x90\x91\x92\x93\x94\n'
    for _ in range(n):
        copy = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            at, kind = chance.randrange(len(copy) + 1), chance.randrange(5)
            if kind == 0 and at < len(copy):
                copy[at] = chance.choice(opcodes)
            elif kind == 1:
                copy[at:at] = bytes([chance.choice(opcodes)])
            elif kind == 2:
                del copy[at:at + chance.randint(1, 4)]
            elif kind == 3:
                to = chance.randrange(len(copy) + 1)
                copy[to:to] = copy[at:at + chance.randint(1, 12)]
            elif at:
                del copy[at:]
        yield bytes(copy)


def is_reported(record, names):
    most = 4000  # the report truncates long names
    return [record.get(key, '')[:most] for key in ('module', 'name')] == [n[:most] for n in names]


def find_unreported(report, calls):
    """Returns which of CALLS is missing in REPORT, the report of the file that made them, or None."""
    records = report['records']
    indirect = any(r.get('code') in ('PKL003', 'PKL004') for r in records)
    for names in sorted(calls):
        if names[0] == '?':
            if not indirect and report['exit'] == 0:
                return 'the result of a call was called'
        elif not any(is_reported(r, names) for r in records) and not (indirect and report['exit'] == 1):
            return '%s.%s was called' % names
    return None


def main():
    ckpt, attacks = sys.argv[1:3]
    copies = int(sys.argv[4]) if sys.argv[3:4] == ['--changed'] else 0
    resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
    chance, passed, failed = random.Random(13), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        files = os.path.join(folder, 'files')
        os.mkdir(files)
        lines = subprocess.run([attacks, files], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
        for technique, name, _, _, loader in (line.split('\t') for line in lines):
            if loader != 'pickle':
                continue
            data = open(os.path.join(files, name), 'rb').read()
            cases = [data] + list(mutated_copies(data, copies, chance))
            paths = []
            for i, case in enumerate(cases):
                stem, suffix = os.path.splitext(name)
                paths.append(os.path.join(folder, '%s_%d%s' % (stem, i, suffix)))
                with open(paths[-1], 'wb') as f:
                    f.write(case)
            output = subprocess.run([ckpt, 'scan', '--json', '--sandbox=off'] + paths, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL).stdout.splitlines()
            assert len(output) == len(cases)
            for case, line in zip(cases, output):
                why = find_unreported(json.loads(line), record_calls(case))
                passed, failed = passed + (why is None), failed + (why is not None)
                if why:
                    print('%s: %s, and is not reported: %r' % (name, why, case[:20000]))
            for path in paths:
                os.remove(path)
    print('attacks-oracle: %d passed, %d failed' % (passed, failed))
    return failed > 0


sys.exit(main())
