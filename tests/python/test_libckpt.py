"""Tests of the Python package. CORPUS and the library come from the environment, see run.sh."""

import _ctypes
import ctypes
import doctest
import functools
import gc
import hashlib
import http.server
import json
import os
import pickle
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import warnings
import weakref

import libckpt
from libckpt import _file, _library

try:
    import numpy
except ImportError:
    numpy = None
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    import torch
except ImportError:
    torch = None

CORPUS = os.environ["CORPUS"]
needs_numpy = unittest.skipIf(numpy is None, "no NumPy")
needs_torch = unittest.skipIf(torch is None or numpy is None, "no torch")


def truth(folder):
    """What the library that wrote the files of the corpus reads from them, a dict for each file."""
    with open(os.path.join(CORPUS, "truth", folder + ".jsonl"), encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            if entry.get("verdict") == "ok" and "tensors" in entry:
                yield entry


def dense(entry):
    return [tensor for tensor in entry["tensors"] if tensor.get("sha256") and tensor.get("kind", "dense") == "dense"]


class Structs(unittest.TestCase):
    def test_layout_is_that_of_the_compiler(self):
        lines = ["#include <stdio.h>", "#include <stddef.h>", '#include "ckpt.h"', "int main(void) {"]
        for name, struct in _library.STRUCTS.items():
            lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
            for field in struct._fields_:
                lines.append(f'printf("{name}.{field[0]} %zu\\n", offsetof({name}, {field[0]}));')
        lines.append("return 0; }")
        with tempfile.TemporaryDirectory() as folder:
            source, program = folder + "/layout.c", folder + "/layout"
            with open(source, "w", encoding="utf-8") as out:
                out.write("\n".join(lines))
            compiler = os.environ.get("CC", "cc").split()
            subprocess.run([*compiler, "-I", os.environ["INCLUDE"], source, "-o", program], check=True)
            printed = subprocess.run([program], stdout=subprocess.PIPE, check=True, text=True).stdout
        expected = dict(line.split() for line in printed.splitlines())
        for name, struct in _library.STRUCTS.items():
            self.assertEqual(ctypes.sizeof(struct), int(expected[name]), name)
            for field in struct._fields_:
                self.assertEqual(getattr(struct, field[0]).offset, int(expected[f"{name}.{field[0]}"]), (name, field))


class Truth(unittest.TestCase):
    def check(self, folder):
        count = 0
        for entry in truth(folder):
            with libckpt.open(os.path.join(CORPUS, entry["file"])) as file:
                names = [tensor["name"] for tensor in entry["tensors"]]
                for tensor in dense(entry):
                    if names.count(tensor["name"]) > 1:
                        continue
                    self.assertIn(tensor["name"], file)
                    digest = hashlib.sha256(file.raw(tensor["name"])).hexdigest()
                    self.assertEqual(digest, tensor["sha256"], (entry["file"], tensor["name"]))
                    self.assertEqual(list(file.shape(tensor["name"])), tensor["shape"])
                    self.assertEqual(file.dtype(tensor["name"]), tensor["dtype"].replace("torch.", ""))
                    count += 1
        self.assertGreater(count, 5)

    def test_torch(self):
        self.check("torch-t26")

    def test_formats_in_pieces(self):
        self.check("zarr")
        self.check("keras")

    def test_safetensors(self):
        self.check("vectors-safetensors")

    @needs_numpy
    def test_arrays_have_these_bytes(self):
        count = 0
        for entry in truth("torch-t26"):
            with libckpt.open(os.path.join(CORPUS, entry["file"])) as file:
                for tensor in dense(entry):
                    try:
                        array = file[tensor["name"]]
                    except TypeError:
                        continue  # a dtype that NumPy does not have
                    self.assertEqual(list(array.shape), tensor["shape"])
                    self.assertEqual(array.tobytes(), bytes(file.raw(tensor["name"])))
                    self.assertEqual(file.read(tensor["name"]).tobytes(), array.tobytes())
                    count += 1
        self.assertGreater(count, 100)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def saved(self, name="a.safetensors", rows=64):
        array = numpy.arange(rows * 16, dtype="float32").reshape(rows, 16)
        libckpt.save({"w": array}, self.path(name))
        return array

    def test_errors(self):
        with self.assertRaises(libckpt.Error) as caught:
            libckpt.open(self.path("none.pt"))
        self.assertEqual((caught.exception.status, caught.exception.errno), ("not-found", 2))
        with open(self.path("short.safetensors"), "wb") as out:
            out.write(b"\x08\0\0\0\0\0\0\0{}")
        with self.assertRaises(libckpt.Error) as caught:
            libckpt.open(self.path("short.safetensors"))
        self.assertEqual(caught.exception.status, "truncated")
        self.assertIn("short.safetensors", str(caught.exception))
        with self.assertRaises(libckpt.Error) as caught:
            libckpt.verify(self.path("none.pt"))
        self.assertIn("none.pt", str(caught.exception))
        self.assertRaises(libckpt.Error, libckpt.run, "no-such-command")
        self.assertRaises(TypeError, libckpt.open, 5)
        self.assertRaisesRegex(TypeError, "not a list", libckpt.save, [1], self.path("a.pt"))

    def test_another_library(self):
        code = "import libckpt"
        for path, text in ((self.path("none.so"), "cannot be loaded.*pip install libckpt"),
                           (_ctypes.__file__, "has no ckpt_version; it is of another version")):  # fmt: skip
            done = subprocess.run(
                [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, env={**os.environ, "CKPT_LIBRARY": path}
            )
            self.assertRegex(done.stderr, text)

    def test_module_is_the_command(self):
        def run(*words, **more):
            command = [sys.executable, "-m", "libckpt", *words]
            return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

        self.assertEqual(run("--version").stdout, f"ckpt {libckpt.__version__}\n")
        self.assertEqual(run("no-such-command").returncode, 2)
        done = run("ls", env={**os.environ, "CKPT": self.path("none")})
        self.assertEqual((done.returncode, done.stderr[:6]), (2, "ckpt: "))

    @needs_numpy
    def test_optional_modules_are_named(self):
        self.saved()
        with libckpt.open(self.path("a.safetensors")) as file:
            uses = ("numpy", file.__getitem__), ("numpy", lambda name: file.slice(name)[1]), ("torch", file.torch)
            for module, use in uses:
                with unittest.mock.patch.dict(sys.modules, {module: None}):
                    with self.assertRaisesRegex(ImportError, f"pip install {module}"):
                        use("w")

    @needs_numpy
    def test_a_file_is_not_pickled(self):
        self.saved()
        with libckpt.open(self.path("a.safetensors")) as file:
            self.assertRaisesRegex(TypeError, "open the path", pickle.dumps, file)

    @needs_numpy
    def test_round_trip(self):
        content = {
            "a": {"x": numpy.arange(6, dtype="int64").reshape(2, 3), "empty": numpy.zeros((0, 3))},
            "strided": numpy.arange(12.0).reshape(3, 4).T[::2],
            "big": numpy.arange(3, dtype=">i4"),
            "scalar": numpy.float16(1.5),
            "flag": numpy.array([True, False]),
            "complex": numpy.array([1 + 2j], dtype="complex64"),
            "epoch": 3, "lr": 0.1, "name": "net é", "none": None, "on": True, "least": -(2**63),
        }  # fmt: skip
        libckpt.save(content, self.path("a.pt"))
        with libckpt.open(self.path("a.pt")) as file:
            for name, array in {
                "a.x": content["a"]["x"], "a.empty": content["a"]["empty"], "strided": content["strided"],
                "big": content["big"], "scalar": content["scalar"], "flag": content["flag"],
                "complex": content["complex"],
            }.items():  # fmt: skip
                numpy.testing.assert_array_equal(file[name], array)
                self.assertEqual(file[name].dtype, numpy.asarray(array).dtype.newbyteorder("="))
            self.assertEqual(
                file.others,
                {name: content[name] for name in ("epoch", "lr", "name", "none", "on", "least")},
            )

    @needs_numpy
    def test_save_refuses(self):
        array = numpy.zeros(2)
        for content, error in (
            ({1: array}, TypeError), ({"a": [array]}, TypeError), ({"a": object()}, TypeError),
            ({"a": numpy.array(["x"])}, TypeError), ({"a": numpy.array([object()])}, TypeError),
            ({"a": 2**63}, OverflowError), ({"a": "\0"}, ValueError), ({"a\0b": array}, ValueError),
        ):  # fmt: skip
            with self.assertRaises(error):
                libckpt.save(content, self.path("a.pt"))
            self.assertFalse(os.path.exists(self.path("a.pt")))
        with self.assertRaises(libckpt.Error) as caught:
            libckpt.save({"a": array, "n": 1}, self.path("a.safetensors"))
        self.assertEqual(caught.exception.status, "lossy")
        libckpt.save({"a": array, "n": 1}, self.path("a.safetensors"), strict=False)
        with self.assertRaises(libckpt.Error) as caught:
            libckpt.save({"a": array}, self.path("a.safetensors"))
        self.assertEqual((caught.exception.status, caught.exception.hint), ("exists", "force=True replaces it"))
        libckpt.save({"a": array}, self.path("a.safetensors"), force=True, metadata={"k": "v"})

    @needs_numpy
    def test_ties(self):
        array = numpy.ones(1000)
        libckpt.save({"a": array, "b": {"c": array}}, self.path("a.pt"))
        self.assertLess(os.path.getsize(self.path("a.pt")), 12000)
        with libckpt.open(self.path("a.pt")) as file:
            self.assertEqual(file.info["aliases"], 1)
            table = file.table()
            offset = table["file_offset"][0]
            with open(self.path("a.pt"), "rb") as stored:
                self.assertEqual(stored.read()[offset : offset + 8], array[0].tobytes())
            numpy.testing.assert_array_equal(file["b.c"], array)

    @needs_numpy
    def test_ties_of_equal_names(self):
        """A tie is to the tensor that the dict has twice, not to another one whose joined name is the same."""
        nested, flat = numpy.ones(3), numpy.full(3, 7.0)
        libckpt.save({"a": {"b": nested}, "a.b": flat, "c": flat, "d": nested}, self.path("a.pt"))
        with libckpt.open(self.path("a.pt")) as file:
            self.assertEqual([file["c"][0], file["d"][0]], [7, 1])
            self.assertEqual([file._read(row, file._tensor(row))[0] for row in range(4)], [1, 7, 7, 1])

    @needs_numpy
    def test_arrays_outlive_the_file(self):
        array = self.saved()
        file = libckpt.open(self.path("a.safetensors"))
        part = file["w"][3, 2:5]
        self.assertFalse(part.flags.writeable)
        self.assertRaises(ValueError, part.__setitem__, 0, 1)
        file.close()
        del file
        gc.collect()
        numpy.testing.assert_array_equal(part, array[3, 2:5])
        self.assertIn("a.safetensors", maps())
        del part
        gc.collect()
        self.assertNotIn("a.safetensors", maps())

    @needs_numpy
    def test_closed(self):
        self.saved()
        with libckpt.open(self.path("a.safetensors")) as file:
            pass
        self.assertRaises(ValueError, file.__getitem__, "w")
        self.assertIn("closed", repr(file))
        file.close()

    @needs_numpy
    def test_slices_outlive_the_file(self):
        self.saved()
        file = libckpt.open(self.path("a.safetensors"))
        part = file.slice("w")
        file.close()
        libckpt.save({"other": numpy.zeros((7,), "int64")}, self.path("b.safetensors"))
        others = [libckpt.open(self.path("b.safetensors")) for _ in range(8)]  # they take what memory is free
        self.assertEqual((part.shape, part.dtype, len(others)), ((64, 16), "float32", 8))
        self.assertIn("'w'", repr(part))
        self.assertRaises(ValueError, part.__getitem__, 0)

    @needs_numpy
    def test_closed_during_a_call(self):
        """Another thread may close the file while the library works with it."""
        array, out = numpy.arange(1000), numpy.zeros(1000, "int64")
        numpy.savez_compressed(self.path("a.npz"), w=array)
        for use in (
            lambda file: file.read("w"), lambda file: file.slice("w")[0:], lambda file: bytes(file.raw("w")),
            lambda file: file.read_into("w", out.ctypes.data, out.nbytes),
        ):  # fmt: skip
            file = libckpt.open(self.path("a.npz"))
            handle = weakref.ref(file._handle)

            def close_and_call(*arguments, file=file, handle=handle):
                file.close()
                self.assertIsNotNone(handle())
                _library.call(*arguments)

            with unittest.mock.patch.object(_file, "call", close_and_call):
                result = use(file)
            self.assertEqual((out if result is None else numpy.frombuffer(result, "int64")).tolist(), array.tolist())
            self.assertIsNone(handle())

    @needs_numpy
    def test_no_text_is_cut_at_a_nul(self):
        array = self.saved()
        path, cut = self.path("a.safetensors"), self.path("a.safetensors") + "\0.pt"
        for refused in (
            lambda: libckpt.open(cut), lambda: libckpt.open(path, root="\0x"), lambda: libckpt.open(path, keep=["w\0x"]),
            lambda: libckpt.save({"w": array}, cut, force=True),
            lambda: libckpt.save({"w": array}, self.path("b.pt"), format="npz\0"),
            lambda: libckpt.save({"w": array}, self.path("b.safetensors"), metadata={"a": "b\0c"}),
        ):  # fmt: skip
            self.assertRaisesRegex(ValueError, "cannot have a NUL", refused)

    @needs_numpy
    def test_no_output_is_lost(self):
        self.saved()
        self.assertRaisesRegex(
            libckpt.Error, "not '-'", libckpt.convert, self.path("a.safetensors"), output="-", to="torch-zip"
        )

    @needs_numpy
    def test_files_in_archives(self):
        """What watches the opening of an archive is gone when its tensors are read."""
        for entry in truth("containers"):
            with libckpt.open(os.path.join(CORPUS, entry["file"])) as file:
                for tensor in dense(entry):
                    data = bytearray(file.raw(tensor["name"]).nbytes)
                    place = (ctypes.c_char * len(data)).from_buffer(data) if data else None
                    file.read_into(tensor["name"], ctypes.addressof(place) if place else 0, len(data))
                    self.assertEqual(hashlib.sha256(data).hexdigest(), tensor["sha256"], entry["file"])

    @needs_numpy
    def test_mapping(self):
        self.saved()
        with libckpt.open(self.path("a.safetensors")) as file:
            self.assertEqual((list(file), len(file)), (["w"], 1))
            self.assertEqual(("w" in file, "x" in file, 5 in file), (True, False, False))
            for key in ("x", 5, None, b"w"):
                self.assertRaises(KeyError, file.__getitem__, key)
                self.assertIsNone(file.get(key))
            self.assertEqual([array.shape for array in file.values()], [(64, 16)])
            table = file.table()
            self.assertEqual((table["name"], table["shape"]), (["w"], [[64, 16]]))
            self.assertEqual(file.notices, [])

    @needs_numpy
    def test_slices(self):
        array = self.saved("a.safetensors")
        libckpt.save({"w": array}, self.path("plain.npz"))
        libckpt.run("convert", self.path("plain.npz"), output=self.path("deflated.npz"), compress=True)
        for name in ("a.safetensors", "deflated.npz"):
            with libckpt.open(self.path(name)) as file:
                lazy = file.slice("w")
                self.assertEqual((lazy.shape, lazy.dtype), ((64, 16), "float32"))
                for key in (0, -1, slice(3, 7), slice(None, None, 3), (slice(2, 4), slice(1, 9, 2)), (5, 3), ...,
                            (slice(60, 99), 0), slice(5, 2), [1, 3], (..., 2)):  # fmt: skip
                    numpy.testing.assert_array_equal(lazy[key], array[key], str(key))
                self.assertRaises(IndexError, lazy.__getitem__, 64)
                self.assertRaises(IndexError, lazy.__getitem__, -65)

    @needs_numpy
    def test_root_and_keep(self):
        libckpt.save({"state": {"a": numpy.zeros(1), "b": numpy.ones(1)}, "x": numpy.zeros(1)}, self.path("a.pt"))
        with libckpt.open(self.path("a.pt"), root="state") as file:
            self.assertEqual(list(file), ["a", "b"])
        with libckpt.open(self.path("a.pt"), keep=["*b"]) as file:
            self.assertEqual(list(file), ["state.b"])
        with self.assertRaises(libckpt.Error) as caught:
            libckpt.open(self.path("a.pt"), root="none")
        self.assertEqual(caught.exception.status, "not-found")

    @needs_numpy
    def test_progress(self):
        self.saved(rows=100000)
        steps = []

        def note(done, total):
            steps.append((done, total))

        libckpt.save({"w": numpy.zeros(3_000_000)}, self.path("b.pt"), progress=note)
        self.assertEqual(steps[-1][0], steps[-1][1])

        def stop(_done, _total):
            raise RuntimeError("enough")

        with self.assertRaisesRegex(RuntimeError, "enough"):
            libckpt.save({"w": numpy.zeros(3_000_000)}, self.path("c.pt"), progress=stop)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["a.safetensors", "b.pt"])

    @needs_numpy
    def test_interrupt(self):
        # a job in the background of a shell ignores the signal
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

        def interrupt(_done, _total):
            os.kill(os.getpid(), signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt):
            libckpt.save({"w": numpy.zeros(30_000_000)}, self.path("c.pt"), progress=interrupt)
        self.assertEqual(os.listdir(self.folder.name), [])

    @needs_numpy
    def test_interrupt_at_any_time(self):
        """Ctrl-C is neither lost nor an Error, and is not printed by ctypes, although no progress is asked for."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        content, lost = {name: numpy.ones(1_000_000) for name in "abcdefgh"}, []
        with unittest.mock.patch.object(sys, "unraisablehook", lost.append):
            for delay in range(10):
                timer = threading.Timer(delay / 200, os.kill, (os.getpid(), signal.SIGINT))
                with self.assertRaises(KeyboardInterrupt):
                    timer.start()
                    libckpt.save(content, self.path("c.pt"), force=True)
                    timer.join()
                timer.join()
                self.assertIn(os.listdir(self.folder.name), ([], ["c.pt"]))
                if os.path.exists(self.path("c.pt")):
                    self.assertTrue(libckpt.verify(self.path("c.pt"))["intact"])
        self.assertEqual(lost, [])
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    @needs_numpy
    def test_used_at_exit(self):
        self.saved()
        code = (
            "import atexit, libckpt, sys\n"
            "atexit.register(lambda: print(file.shape('w'), array[0, :2], file.read('w').sum() == array.sum()))\n"
            "file = libckpt.open(sys.argv[1])\n"
            "array = file['w']\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, self.path("a.safetensors")], stdout=subprocess.PIPE, text=True, check=False
        )
        self.assertEqual((done.returncode, done.stdout), (0, "(64, 16) [0. 1.] True\n"))

    @needs_numpy
    def test_threads_read_one_file(self):
        array = self.saved(rows=1000)
        wrong = []
        with libckpt.open(self.path("a.safetensors")) as file:
            def read():
                for _ in range(50):
                    if file.read("w").tobytes() != array.tobytes():
                        wrong.append(1)

            threads = [threading.Thread(target=read) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])

    @needs_numpy
    def test_one_tensor_of_a_big_file_takes_no_memory(self):
        libckpt.save({f"w{i}": numpy.zeros(4_000_000) for i in range(8)}, self.path("big.safetensors"))
        with libckpt.open(self.path("big.safetensors")) as file:  # what the first use imports is not counted
            file["w0"][:1].sum()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with libckpt.open(self.path("big.safetensors")) as file:
            self.assertEqual(file["w5"][2_000_000], 0)
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 1024)

    def test_each_command_is_a_function(self):
        with open(os.path.join(os.environ["INCLUDE"], "../cli/cmds.def"), encoding="utf-8") as lines:
            commands = set(re.findall(r"^CMD\((\w+)\)", lines.read(), re.M)) - {"git", "help", "completion"}
        self.assertLessEqual(commands, set(libckpt.__all__))
        for name in commands:
            with self.assertRaises(libckpt.Error) as caught:
                getattr(libckpt, name)(no_such_option=True)
            self.assertIn("--no-such-option", str(caught.exception), name)

    def test_names_that_are_not_utf8(self):
        for text in ("é", "\ud800", "a\udcffb"):
            self.assertEqual(_library.decode(_library.encode(text)), text)

    @needs_numpy
    def test_commands(self):
        libckpt.save({"net.w": numpy.zeros(2)}, self.path("a.pt"))
        report = libckpt.strip("net.", self.path("a.pt"), output=self.path("b.pt"))
        self.assertEqual(report["schema"], "ckpt.edit.v1")
        with libckpt.open(self.path("b.pt")) as file:
            self.assertEqual(list(file), ["w"])
        self.assertFalse(libckpt.diff(self.path("a.pt"), self.path("b.pt"))["equal"])
        self.assertEqual(len(libckpt.verify(self.path("a.pt"), self.path("b.pt"))), 2)
        libckpt.convert(self.path("a.pt"), output=self.path("c.safetensors"), cast=["float16"], quiet=True)
        with libckpt.open(self.path("c.safetensors")) as file:
            self.assertEqual(file.dtype("net.w"), "float16")

    @unittest.skipIf(ml_dtypes is None or numpy is None, "no ml_dtypes")
    def test_ml_dtypes(self):
        array = numpy.array([1.5, -2.0], dtype=ml_dtypes.bfloat16)
        libckpt.save({"w": array, "f": array.astype(ml_dtypes.float8_e4m3fn)}, self.path("a.safetensors"))
        with libckpt.open(self.path("a.safetensors")) as file:
            self.assertEqual(file["w"].dtype, array.dtype)
            self.assertEqual(file["w"].tolist(), [1.5, -2.0])
            self.assertEqual(file["f"].tolist(), [1.5, -2.0])

    @unittest.skipIf(ml_dtypes is not None or numpy is None, "ml_dtypes is there")
    def test_dtypes_without_ml_dtypes(self):
        path, name = next(
            (entry["file"], tensor["name"])
            for entry in truth("torch-t26") for tensor in dense(entry) if tensor["dtype"] == "bfloat16"
        )  # fmt: skip
        with libckpt.open(os.path.join(CORPUS, path)) as file:
            with self.assertRaisesRegex(TypeError, "pip install ml_dtypes"):
                file[name]
            self.assertGreater(len(file.raw(name)), 0)


@needs_numpy
class Remote(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.array = numpy.arange(64, dtype="float32").reshape(8, 8)
        libckpt.save({"w": self.array}, os.path.join(folder.name, "a.safetensors"))

        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder.name))
        self.url = f"http://127.0.0.1:{server.server_port}/a.safetensors"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

    def test_url(self):
        try:
            file = libckpt.open(self.url)
        except libckpt.Error as error:
            self.assertEqual(error.status, "unsupported")  # there is no libcurl
            self.skipTest(error.what)
        with file:
            gc.collect()  # what is read later still has the options
            self.assertTrue(numpy.array_equal(file["w"], self.array))
            self.assertTrue(numpy.array_equal(file.slice("w")[2:4], self.array[2:4]))

    def test_offline(self):
        with self.assertRaisesRegex(libckpt.Error, "offline"):
            libckpt.open(self.url, remote=libckpt.Remote(offline=True))

    def test_environment(self):
        given = {"HF_TOKEN": " hf_x\n", "AWS_REGION": "", "AWS_DEFAULT_REGION": "eu", "HF_HUB_OFFLINE": "1"}
        with unittest.mock.patch.dict(os.environ, given):
            remote = libckpt.Remote.from_environment("hf://org/model")
            self.assertEqual((remote.hub_token, remote.s3_region, remote.offline), ("hf_x", "eu", True))
            self.assertNotIn("hf_x", repr(remote))
            other = libckpt.Remote.from_environment("s3://bucket/key")
            self.assertEqual((other.hub_token, other.offline), (None, False))
        self.assertRaises(ValueError, libckpt.open, self.url, remote=libckpt.Remote(hub_token="a\r\nb"))


@needs_torch
class Torch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def test_state_dict(self):
        from libckpt.torch import load_file, load_state_dict

        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4)).to(torch.bfloat16)
        torch.save({"epoch": 1, "state_dict": model.state_dict()}, self.path("a.pt"))
        other = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4)).to(torch.bfloat16)
        load_state_dict(other, self.path("a.pt"))
        for name, tensor in model.state_dict().items():
            self.assertTrue(torch.equal(other.state_dict()[name], tensor), name)
        with self.assertRaisesRegex(RuntimeError, "Missing key(.|\n)*hint: no name.*ckpt doctor .*a.pt"):
            load_state_dict(torch.nn.Linear(8, 4), self.path("a.pt"))
        torch.save({"a": {"b": torch.ones(1)}, "a.b": torch.zeros(1)}, self.path("twice.pt"))
        for load in load_file, lambda path: load_state_dict(model, path, strict=False):
            with self.assertRaisesRegex(libckpt.Error, 'two tensors are called "a.b"'):
                load(self.path("twice.pt"))
        loaded = load_file(self.path("a.pt"))
        loaded["0.weight"].zero_()  # a change stays in this process
        self.assertFalse(torch.equal(load_file(self.path("a.pt"))["0.weight"], loaded["0.weight"]))
        self.assertTrue(torch.equal(torch.load(self.path("a.pt"))["state_dict"]["0.weight"], model[0].weight))

    def test_fills_as_torch_loads(self):
        """Tied, transposed, broadcast, complex, empty and other tensors, and those of another dtype or shape."""
        from libckpt.torch import load_state_dict

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                for name, value in {
                    "plain": torch.zeros(3, 4), "small": torch.zeros(5, dtype=torch.float16), "tied": torch.zeros(6),
                    "turned": torch.zeros(4, 3).t(), "z": torch.zeros(2, dtype=torch.complex64), "none": torch.zeros(0),
                    "step": torch.tensor(0), "flag": torch.zeros(7, dtype=torch.bool), "wider": torch.zeros(2, 2),
                }.items():
                    self.register_buffer(name, value)
                self.also_tied = torch.nn.Parameter(self.tied)
                self.fp8 = torch.nn.Parameter(torch.zeros(2, dtype=torch.float8_e4m3fn), requires_grad=False)

        torch.manual_seed(2)
        content = {
            name: (torch.randn(value.shape) * 8).to(value.dtype) if value.dtype != torch.bool else value == 0
            for name, value in Model().state_dict().items()
        }
        content["turned"], content["small"] = torch.randn(4, 3).t(), torch.randn(10)[::2].double()
        content = dict(reversed(content.items()))  # of tied tensors, the one that the model has last counts
        for is_hooked in False, True:
            expected, loaded = Model(), Model()
            if is_hooked:
                for model in expected, loaded:
                    model._register_load_state_dict_pre_hook(lambda state, *_: state["plain"].add_(1))
            torch.save(content, self.path("m.pt"))
            expected.load_state_dict(torch.load(self.path("m.pt")))
            places = {name: value.data_ptr() for name, value in loaded.state_dict().items()}
            load_state_dict(loaded, self.path("m.pt"))
            for name, value in expected.state_dict().items():
                mine = loaded.state_dict()[name]
                self.assertEqual(mine.data_ptr(), places[name], name)
                same = torch.equal(mine.contiguous().view(-1).view(torch.uint8), value.contiguous().view(-1).view(torch.uint8))
                self.assertTrue(same or not value.numel(), name)
        del content["step"]
        torch.save({**content, "plain": torch.zeros(4, 3), "extra": torch.zeros(1)}, self.path("m.pt"))
        self.assertRaisesRegex(
            RuntimeError, "(?s)Missing.*step.*Unexpected.*extra.*plain", load_state_dict, Model(), self.path("m.pt")
        )
        result = load_state_dict(torch.nn.Linear(1, 1), self.path("m.pt"), strict=False)
        self.assertEqual(sorted(result.missing_keys), ["bias", "weight"])

    def test_save_names_what_is_not_dense(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch means to remove some of these
            tensors = {
                "quantized": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
                "sparse": torch.ones(3).to_sparse(),
                "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
                "meta": torch.ones(3, device="meta"),
            }
        for kind, value in tensors.items():
            self.assertRaisesRegex(TypeError, f"w: .*{kind}", libckpt.save, {"w": value}, self.path("a.pt"))

    def test_quantized_tensors_are_refused(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.save({"q": torch.quantize_per_tensor(torch.ones(3), 0.5, 0, torch.qint8)}, self.path("q.pt"))
        with libckpt.open(self.path("q.pt")) as file:
            self.assertRaisesRegex(TypeError, "qint8 is quantized", file.torch, "q")
            self.assertEqual(bytes(file.raw("q")), b"\2\2\2")

    def test_long_values(self):
        content = {"s": "x" * 65536, "long": "y" * 65537, "none": "", "b": b"", "long_b": b"z" * 70000, "q": "'"}
        torch.save(content, self.path("v.pt"), pickle_protocol=4)
        with libckpt.open(self.path("v.pt")) as file:
            others = file.others
        for name in ("s", "none", "b", "q"):
            self.assertEqual(others[name], content[name])
        self.assertTrue(others["long"] and others["long_b"], others)

    def test_own_ways_to_load(self):
        """Modules that transpose, leave out, add to or rename what is loaded get what torch's load_state_dict gives."""
        from libckpt.torch import load_state_dict

        class Turned(torch.nn.Linear):
            def _load_from_state_dict(self, state, prefix, *rest):
                state[prefix + "weight"] = state[prefix + "weight"].t()
                super()._load_from_state_dict(state, prefix, *rest)

        class Kept(torch.nn.Linear):
            def _load_from_state_dict(self, *_):
                pass

        class Summed(torch.nn.Linear):
            def load_state_dict(self, state, *rest, **options):
                return super().load_state_dict({k: v + getattr(self, k).detach() for k, v in state.items()}, *rest, **options)

        class Swapped(torch.nn.Module):
            def __init__(self, *_):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.zeros(4, 4))
                self.bias = torch.nn.Parameter(torch.zeros(4))
                self.also = torch.nn.Parameter(torch.zeros(4, 4))
                self.register_buffer("scratch", torch.zeros(2), persistent=False)

            def state_dict(self, *rest, **options):  # nor is what is shown under a name what is loaded from it
                state = super().state_dict(*rest, **options)
                state["weight"], state["also"] = state["also"], state["weight"]
                return state

        class Overlapping(torch.nn.Module):
            def __init__(self, *_):
                super().__init__()
                self.register_buffer("weight", torch.zeros(20)[:16].view(4, 4))
                self.register_buffer("bias", torch.as_strided(self.weight, (4,), (1,), 14))

        state = {name: torch.randn(shape) for name, shape in {"weight": (4, 4), "bias": (4,), "also": (4, 4)}.items()}
        state["scratch"] = torch.ones(2)
        for kind in Turned, Kept, Summed, Swapped, Overlapping:
            mine = state if kind is Swapped else {"bias": state["bias"], "weight": state["weight"]}
            torch.save(mine, self.path("o.pt"))
            torch.manual_seed(3)
            expected = kind(4, 4)
            torch.manual_seed(3)
            loaded = kind(4, 4)
            expected.load_state_dict(mine, strict=False)
            load_state_dict(loaded, self.path("o.pt"), strict=False)
            for name, value in [*expected.named_parameters(), *expected.named_buffers()]:
                self.assertTrue(torch.equal(loaded.get_parameter(name) if name in dict(loaded.named_parameters())
                                            else loaded.get_buffer(name), value), (kind, name))  # fmt: skip

    def test_the_map_outlives_the_file(self):
        torch.save({"w": torch.arange(5000)}, self.path("a.pt"))
        with libckpt.open(self.path("a.pt")) as file:
            tensor = file.torch("w")
        os.unlink(self.path("a.pt"))
        gc.collect()
        self.assertTrue(torch.equal(tensor, torch.arange(5000)))

    def test_a_replaced_file_is_not_mapped(self):
        torch.save({"w": torch.arange(5000)}, self.path("a.pt"))
        torch.save({"w": torch.arange(5000) + 1}, self.path("b.pt"))
        with libckpt.open(self.path("a.pt")) as file:
            os.rename(self.path("b.pt"), self.path("a.pt"))
            with self.assertRaises(libckpt.Error) as caught:
                file.torch("w")
            self.assertEqual(caught.exception.status, "changed")

    def test_corpus(self):
        count = 0
        for folder in ("torch-t26", "vectors-safetensors"):
            for entry in truth(folder):
                with libckpt.open(os.path.join(CORPUS, entry["file"])) as file:
                    for tensor in dense(entry):
                        try:
                            loaded = file.torch(tensor["name"])
                        except TypeError:
                            continue
                        self.assertEqual(list(loaded.shape), tensor["shape"])
                        if loaded.numel() and loaded.dtype != torch.complex32:
                            data = loaded.contiguous().flatten().view(torch.uint8).numpy().tobytes()
                            self.assertEqual(data, bytes(file.raw(tensor["name"])))
                        count += 1
        self.assertGreater(count, 100)

    def test_save(self):
        shared = torch.ones(3)
        content = {
            "w": torch.arange(6.0).reshape(2, 3).t(), "bf": torch.ones(2, dtype=torch.bfloat16),
            "p": torch.nn.Parameter(shared), "conj": torch.tensor([1 + 2j]).conj(), "zero": torch.tensor(3),
        }  # fmt: skip
        libckpt.save(content, self.path("a.pt"))
        loaded = torch.load(self.path("a.pt"))
        for name, tensor in content.items():
            self.assertTrue(torch.equal(loaded[name], tensor.detach().resolve_conj()), name)
            self.assertEqual(loaded[name].dtype, tensor.dtype)
        self.assertRaises(TypeError, libckpt.save, {"s": torch.ones(2).to_sparse()}, self.path("b.pt"))


def maps():
    with open("/proc/self/maps", encoding="utf-8") as lines:
        return lines.read()


def load_tests(_loader, tests, _pattern):
    if numpy is not None:
        tests.addTests(doctest.DocTestSuite(_file))
        tests.addTests(doctest.DocTestSuite(sys.modules["libckpt._save"]))
    tests.addTests(doctest.DocTestSuite(sys.modules["libckpt._commands"]))
    return tests


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=0)
    result = program.result
    failed = len(result.failures) + len(result.errors)
    for test, reason in result.skipped:
        print(f"python skipped: {test}: {reason}")
    passed = result.testsRun - failed - len(result.skipped)
    print(f"python: {passed} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(1 if failed else 0)
