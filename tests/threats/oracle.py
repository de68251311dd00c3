#!/usr/bin/env python3
"""oracle.py CKPT ATTACKS [--changed N] - compares what CPython's unpicklers call with what `ckpt scan` reports.

ATTACKS is the program built from attacks.c. Each file that it makes for a loader of pickles, and N changed copies of
the file, are read to their end by both unpicklers of CPython, the one written in C and the one in Python. Nothing is
imported or run: find_class and persistent_load return classes that only record that they are called. The report must
contain each recorded call. If the result of a call was called, the report must have a finding.

Texts are read by PyYAML and by sympy, if they are installed; what these would import or call must be a finding.
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

calls_made = set()  # (module, name) of each function called, or RESULT_CALLED
RESULT_CALLED = ('?', '?')  # an object that a call had returned was itself called


class RecordingClass(type):
    """The metaclass of classes that do nothing but record when they are called."""

    def __call__(cls, *args, **kwargs):
        calls_made.add(cls.names)
        return object.__new__(cls)


def record_new(cls, *args, **kwargs):
    calls_made.add(cls.names)
    return object.__new__(cls)


def record_result_called(self, *args, **kwargs):
    calls_made.add(RESULT_CALLED)
    return self


def find_attribute(self, name):
    """__getattr__ of objects that have the methods that opcodes such as APPENDS call."""
    if name in ('append', 'extend', 'add'):
        return lambda *args: None
    raise AttributeError(name)


def recording_class(module, name):
    """Returns a class that stands for MODULE.NAME. It records that it is called, as do its instances."""
    return RecordingClass('recording', (), {
        'names': (module, name), '__new__': record_new, '__call__': record_result_called,
        '__getattr__': find_attribute, '__setitem__': lambda self, key, value: None})


def recording_unpickler(base):
    class Unpickler(base):
        def find_class(self, module, name):
            if not module:  # Python's import refuses an empty name
                raise ValueError(module)
            return recording_class(module, name)

        def persistent_load(self, pid):
            return recording_class('?', 'persistent')

    return Unpickler


UNPICKLERS = recording_unpickler(pickle.Unpickler), recording_unpickler(pickle._Unpickler)


def record_calls(data):
    """Returns the names that both unpicklers call until they fail or the file ends."""
    calls_made.clear()
    for unpickler in UNPICKLERS:
        stream = io.BytesIO(data)
        try:
            warnings.simplefilter('ignore')
            while stream.tell() < len(data):
                unpickler(stream, encoding='latin1').load()
        except (Exception, RecursionError):
            pass
    return set(calls_made)


def recording_yaml_loader(yaml):
    """Returns a loader of PyYAML that records the names it would import."""
    class Loader(yaml.SafeLoader):
        pass

    def record(loader, suffix, node):
        calls_made.add(('yaml', suffix))

    for prefix in ('tag:yaml.org,2002:python/', '!'):
        Loader.add_multi_constructor(prefix, record)
    return Loader


def find_targets(value):
    """Records each value of a key "_target_" in VALUE."""
    if isinstance(value, dict):
        if '_target_' in value:
            calls_made.add(('hydra', str(value['_target_'])))
        value = value.values()
    if not isinstance(value, str) and hasattr(value, '__iter__'):
        for item in value:
            find_targets(item)


def record_expressions(value, sympify):
    """Evaluates the text of each key "expr_str" in VALUE as torch does, with a function that records its call."""
    def recorder(*args):
        calls_made.add(('sympy', 'recorder'))
        return 1

    for text in [value.get('expr_str')] if isinstance(value, dict) else []:
        if text:
            sympify(text, locals={'recorder': recorder})


def record_text(data):
    """Returns what loaders of text would import or call; nothing is imported or run but recorder()."""
    calls_made.clear()
    try:
        import yaml
        for value in yaml.load_all(data.decode(), Loader=recording_yaml_loader(yaml)):
            find_targets(value)
    except ImportError:
        pass
    except Exception:
        pass
    try:
        import sympy
        record_expressions(json.loads(data.decode()), sympy.sympify)
    except (ImportError, ValueError):
        pass
    return set(calls_made)


def check_text(ckpt, path):
    """Returns a text about a call that the file at PATH makes and scan does not report, or None."""
    calls = record_text(open(path, 'rb').read())
    output = subprocess.run([ckpt, 'scan', '--json', '--sandbox=off', path], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL).stdout
    return '%s' % calls if calls and json.loads(output)['exit'] == 0 else None


def mutated_copies(data, n, generator):
    """Yields N copies of DATA with a few bytes changed, inserted, deleted or copied."""
    opcodes = b'(.0123FIJKLMNPQRSTUVXabcd}eghijl]opqrstu)GBC\x80\x81\x85\x86\x87\x88\x89\x8c\x8f\x90\x91\x92\x93\x94\n'
    for _ in range(n):
        copy = bytearray(data)
        for _ in range(generator.randint(1, 3)):
            offset, change = generator.randrange(len(copy) + 1), generator.randrange(5)
            if change == 0 and offset < len(copy):
                copy[offset] = generator.choice(opcodes)
            elif change == 1:
                copy[offset:offset] = bytes([generator.choice(opcodes)])
            elif change == 2:
                del copy[offset:offset + generator.randint(1, 4)]
            elif change == 3:
                to = generator.randrange(len(copy) + 1)
                copy[to:to] = copy[offset:offset + generator.randint(1, 12)]
            elif offset:
                del copy[offset:]
        yield bytes(copy)


def is_reported(record, names):
    """Returns whether RECORD of a report is about the function NAMES, (module, name)."""
    length = 4000  # the report truncates long names
    return [record.get(key, '')[:length] for key in ('module', 'name')] == [name[:length] for name in names]


def find_unreported(report, calls):
    """Returns a text about one of CALLS that is missing in REPORT, the report of the file that made them, or None."""
    records = report['records']
    # a finding unresolved-callable or import-changed: the report cannot name the function that is called
    calls_unnamed = any(r.get('code') in ('PKL003', 'PKL004') for r in records)
    for names in sorted(calls):
        if names[0] == '?':
            if not calls_unnamed and report['exit'] == 0:
                return 'the result of a call was called'
        elif not any(is_reported(r, names) for r in records) and not (calls_unnamed and report['exit'] == 1):
            return '%s.%s was called' % names
    return None


def main():
    ckpt, attacks = sys.argv[1:3]
    ncopies = int(sys.argv[4]) if sys.argv[3:4] == ['--changed'] else 0
    # memory that an unpickler may use for a changed copy: 2 GiB
    resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
    generator, passed, failed = random.Random(13), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        files = os.path.join(folder, 'files')
        os.mkdir(files)
        lines = subprocess.run([attacks, files], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
        for technique, name, _, _, loader in (line.split('\t') for line in lines):
            if loader == 'text':
                missing = check_text(ckpt, os.path.join(files, name))
                passed += missing is None
                failed += missing is not None
                if missing:
                    print('%s: %s is called, and is not reported' % (name, missing))
            if loader != 'pickle':
                continue
            data = open(os.path.join(files, name), 'rb').read()
            cases = [data] + list(mutated_copies(data, ncopies, generator))
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
                missing = find_unreported(json.loads(line), record_calls(case))
                passed += missing is None
                failed += missing is not None
                if missing:
                    print('%s: %s, and is not reported: %r' % (name, missing, case[:20000]))
            for path in paths:
                os.remove(path)
    print('attacks-oracle: %d passed, %d failed' % (passed, failed))
    return failed > 0


sys.exit(main())
