"""Tensors in files: NumPy's in all layouts, raw ones, and files that lie."""
import io
import os
import struct
import subprocess
import unittest

import numpy as np

from common import BINARY, Case


def npy(header, data=b"", version=1, length=None):
    """A .npy file by hand."""
    text = header.encode()
    size = len(text) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", size) + text + data


def header(descr="'<f4'", fortran="False", shape="(2, 4)"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


class Files(Case):
    def write(self, name, content):
        (self.directory / name).write_bytes(content)
        return name

    def through(self, array):
        """SwiGlu of it: every element has its place in the result."""
        np.save(self.path("x.npy"), array)
        self.gradus("run", "SwiGlu", "x=x.npy", "out=y.npy", "--precision", "golden")
        return np.load(self.path("y.npy"))


def swi_glu(x):
    a, b = np.split(x.astype(np.float64), 2, axis=-1)
    return a / (1 + np.exp(-a)) * b


class Numpy(Files):
    def setUp(self):
        super().setUp()
        self.x = np.random.default_rng(1).standard_normal((3, 5, 8)).astype(np.float32)

    def test_both_orders(self):
        for array in (self.x, np.asfortranarray(self.x), self.x[:, 0], np.asfortranarray(self.x[0]), self.x[0, 0]):
            np.testing.assert_allclose(self.through(array), swi_glu(array), rtol=1e-6)

    def test_f16(self):
        x = self.x.astype(np.float16)
        y = self.through(x)
        self.assertEqual(y.dtype, np.float16)
        np.testing.assert_array_equal(y, swi_glu(x).astype(np.float16))

    def test_versions(self):
        for version in (1, 2, 3):
            with open(self.path("v.npy"), "wb") as file:
                np.lib.format.write_array(file, self.x, version=(version, 0))
            self.gradus("run", "SwiGlu", "x=v.npy", "out=y.npy")
            np.testing.assert_allclose(np.load(self.path("y.npy")), swi_glu(self.x), rtol=1e-5)

    def test_written_as_numpy_writes(self):
        for shape in ((2,), (3, 4), (2, 1, 2, 6)):
            np.save(self.path("x.npy"), np.ones(shape, np.float32))
            self.gradus("run", "SwiGlu", "x=x.npy", "out=y.npy")
            np.save(self.path("again.npy"), np.load(self.path("y.npy")))
            with open(self.path("y.npy"), "rb") as ours, open(self.path("again.npy"), "rb") as theirs:
                self.assertEqual(ours.read(), theirs.read())

    def test_bool_and_integers(self):
        x = np.zeros((1, 2, 3, 4), np.float32)
        mask = np.random.default_rng(2).random((1, 1, 3, 4)) < 0.5
        np.save(self.path("x.npy"), x)
        np.save(self.path("mask.npy"), mask)
        self.gradus("run", "ScaledMaskedSoftmax", "x=x.npy", "mask=mask.npy", "y=y.npy", "--precision", "golden")
        want = np.exp(np.where(mask, -10000.0, x))
        total = want.sum(-1, keepdims=True)
        want = np.where(total == 0, 0.25, want / np.where(total == 0, 1, total))
        np.testing.assert_allclose(np.load(self.path("y.npy")), want, rtol=1e-6)

        target = np.array([0, 3, 1], np.int64)
        np.save(self.path("target.npy"), target)
        arguments = ["run", "FusedLinearOnlineMaxSum", "BT=3", "V=4", "H=2", "input=auto", "weight=auto",
                     "vocabStartIndex=0", "vocabEndIndex=4", "-o", "out"]
        self.gradus(*arguments, "target=target.npy")
        masked = np.load(self.path("out/maskedTargetOut.npy"))
        self.assertEqual(masked.dtype, np.int64)
        np.testing.assert_array_equal(masked, target)
        self.gradus(*arguments, "target:int32=target.npy")
        self.assertEqual(np.load(self.path("out/maskedTargetOut.npy")).dtype, np.int32)
        np.save(self.path("target.npy"), target + 2**31)
        self.refused(*arguments, "target:int32=target.npy", words=["target: ", "[0] is 2147483648", "int32"])

    def test_f64_only_when_asked(self):
        np.save(self.path("x.npy"), self.x.astype(np.float64))
        self.refused("run", "SwiGlu", "x=x.npy", words=["x: x.npy: dtype f64", "name:f32="])
        self.gradus("run", "SwiGlu", "x:f32=x.npy", "out=y.npy")
        np.testing.assert_allclose(np.load(self.path("y.npy")), swi_glu(self.x), rtol=1e-5)

    def test_a_wrong_dtype_is_the_operators_word(self):
        np.save(self.path("x.npy"), np.ones((2, 4), np.int16))
        self.refused("run", "SwiGlu", "x=x.npy", words=["x: dtype int16, expected f32, f16 or bf16"])

    def test_reading_does_not_depend_on_the_name(self):
        os.mkdir(self.path("a b[1]"))
        np.save(self.path("a b[1]/x:f16.npy"), self.x)
        self.gradus("run", "SwiGlu", "x=a b[1]/x:f16.npy", "out=a b[1]/y.npy")
        np.testing.assert_allclose(np.load(self.path("a b[1]/y.npy")), swi_glu(self.x), rtol=1e-5)


class Brain(Files):
    def setUp(self):
        super().setUp()
        self.x = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)
        self.bits = (self.x.view(np.uint32) >> 16).astype(np.uint16)

    def expect(self, *words):
        self.gradus("run", "SwiGlu", *words, "out=y.npy")
        with open(self.path("y.npy"), "rb") as file:
            content = file.read()
        self.assertIn(b"'descr': '<V2'", content)
        y = np.frombuffer(content[-4 * 3 * 2:], np.uint16).astype(np.uint32) << 16
        x = (self.bits.astype(np.uint32) << 16).view(np.float32)
        np.testing.assert_allclose(y.view(np.float32).reshape(4, 3), swi_glu(x), rtol=2**-7)

    def test_as_ml_dtypes_writes_it(self):
        for descr in ("'<V2'", "'|V2'"):
            self.write("x.npy", npy(header(descr, shape="(4, 6)"), self.bits.tobytes()))
            self.expect("x=x.npy")
        self.write("x.npy", npy(header("'<V2'", "True", "(4, 6)"), self.bits.T.tobytes()))
        self.expect("x=x.npy")

    def test_words(self):
        np.save(self.path("x.npy"), self.bits)
        self.expect("x:bf16=x.npy")

    def test_rounded_to_nearest_even(self):
        x = np.array([[1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -1 - 2**-8, np.inf, np.nan]], np.float32)
        np.save(self.path("x.npy"), np.repeat(x, 2, 0).T.copy())
        ran = self.json("run", "SwiGlu", "x:bf16=x.npy")
        self.assertEqual(ran["inputs"]["x"]["dtype"], "bf16")
        np.save(self.path("grad.npy"), np.ones((2, 3), np.float32))
        # σ(0) = 1/2 and 1·0·σ = 0: the gradient by B shows A as it was read
        both = np.concatenate([np.zeros((1, 3)), x[:, :3]], 1).astype(np.float32)
        np.save(self.path("x.npy"), both)
        got = self.json("run", "SwiGluGrad", "x:bf16=x.npy", "yGrad=ones[1,3]:bf16")["outputs"]["out"]["first"]
        self.assertEqual(got[:3], [0.5, 0.5 + 2**-7, 0.5 + 2**-8])

    def test_raw(self):
        self.bits.tofile(self.path("x.bin"))
        self.expect("x=x.bin:bf16[4,6]")
        self.expect("x:bf16=x.bin[4,6]")
        self.refused("run", "SwiGlu", "x=x.bin:bf16[4,8]", words=["x: x.bin: truncated"])
        self.refused("run", "SwiGlu", "x=x.bin:bf16[4,4]", words=["x: x.bin: 16 bytes after the data"])
        self.gradus("run", "SwiGlu", "x=x.bin:bf16[4,6]", "out=y.bin")
        self.assertEqual(os.path.getsize(self.path("y.bin")), 4 * 3 * 2)

    def test_raw_shape_follows_from_the_call(self):
        np.ones((2, 3, 4, 4), np.float16).tofile(self.path("s.bin"))
        np.save(self.path("g.npy"), np.ones((2, 3, 4, 4), np.float16))
        self.gradus("run", "ExpSegsumBackward", "gradOutput=g.npy", "gradSelf=s.bin", "gradInput=y.npy")
        np.testing.assert_array_equal(np.load(self.path("y.npy"))[0, 0], [0, 3, 4, 3])

    def test_ml_dtypes_itself(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is not installed")
        x = self.x.astype(ml_dtypes.bfloat16)
        np.save(self.path("x.npy"), x)
        self.gradus("run", "SwiGlu", "x=x.npy", "out=y.npy")
        y = np.load(self.path("y.npy")).view(ml_dtypes.bfloat16).astype(np.float64)
        np.testing.assert_allclose(y, swi_glu(x), rtol=2**-7)


class Hostile(Files):
    def test_refused_with_a_reason(self):
        data = bytes(32)
        huge = 2**62
        for content, words in (
            (b"", ["shorter than its magic"]),
            (b"\x93NUMP", ["shorter than its magic"]),
            (b"PK\x03\x04" + bytes(100), ["does not begin with"]),
            (npy(header(), data, version=4), ["version 4.0"]),
            (npy(header(), data, version=0), ["version 0.0"]),
            (npy(header(), b"", length=60000), ["truncated", "header"]),
            (npy(header(), b"", version=2, length=2**32 - 1), ["header of 4294967295 bytes"]),
            (npy(header(), b"", version=2)[:10], ["truncated"]),
            (npy(header(), data[:-1]), ["truncated"]),
            (npy(header(), data + b"x"), ["1 bytes after the data"]),
            (npy(header(shape=f"({huge}, {huge})"), data), ["more elements than 2^63"]),
            (npy(header(shape=f"({huge},)"), data), ["truncated"]),
            (npy(header(shape=f"({2**70},)"), data), ["beyond 2^63"]),
            (npy(header(shape="(1000000000000, 8)"), data), ["truncated"]),
            (npy(header(shape="(-2, -4)"), data), ["negative"]),
            (npy(header(shape="(2, 4.5)"), data), ["no comma"]),
            (npy(header(shape="(2 4)"), data), ["no comma"]),
            (npy(header(shape="[2, 4]"), data), ["expected '('"]),
            (npy(header(shape="(2, 4"), data), ["shape"]),
            (npy(header(shape="('a',)"), data), ["expected a number"]),
            (npy(header(shape="(" + "1," * 40 + "8)"), data), ["at most 25"]),
            (npy(header("'>f4'"), data), ["big-endian", "astype('<f4')"]),
            (npy(header("'|O'"), data), ["object"]),
            (npy(header("[('a', '<f4'), ('b', '<i4')]", shape="(4,)"), data), ["structured"]),
            (npy(header("'<c8'", shape="(4,)"), data), ["'<c8'"]),
            (npy(header("'<U4'", shape="(2,)"), data), ["'<U4'"]),
            (npy(header("'<M8[ns]'", shape="(4,)"), data), ["'<M8[ns]'"]),
            (npy(header("'<V3'"), data), ["'<V3'"]),
            (npy(header("''"), data), ["dtype ''"]),
            (npy(header("'<f4"), data), ["header"]),
            (npy(header("None"), data), ["expected a string"]),
            (npy(header(fortran="Maybe"), data), ["neither True nor False"]),
            (npy("{'descr': '<f4', 'shape': (2, 4)}", data), ["missing"]),
            (npy("{'descr': '<f4', 'descr': '<f4'}", data), ["once each"]),
            (npy("{'\x01\x1b[31m': '<f4'}", data), ["key '??[31m'"]),
            (npy(header() + "import os", data), ["after the dictionary"]),
            (npy("", data), ["expected '{'"]),
            (npy("{" * 1000, data), ["expected a string"]),
        ):
            with self.subTest(content[:90]):
                self.write("x.npy", content)
                message = self.refused("run", "SwiGlu", "x=x.npy", words=["x: x.npy: ", *words])
                self.assertNotIn("\x1b", message)

    def test_every_truncation(self):
        np.save(self.path("x.npy"), np.ones((2, 4), np.float32))
        whole = (self.directory / "x.npy").read_bytes()
        for size in list(range(0, 20)) + list(range(100, len(whole), 7)):
            self.write("x.npy", whole[:size])
            self.refused("run", "SwiGlu", "x=x.npy")

    def test_noise(self):
        rng = np.random.default_rng(4)
        np.save(self.path("x.npy"), np.ones((2, 4), np.float32))
        whole = np.frombuffer((self.directory / "x.npy").read_bytes(), np.uint8)
        for _ in range(60):
            broken = whole.copy()
            for at in rng.integers(6, 75, 2):
                broken[at] = rng.integers(0, 256)
            self.write("x.npy", broken.tobytes())
            try:
                self.gradus("run", "SwiGlu", "x=x.npy")
            except AssertionError:
                self.assertRegex(self.stderr, "^gradus: ")  # a reason, not a crash

    def test_what_is_no_file(self):
        self.refused("run", "SwiGlu", "x=missing.npy", words=["x: missing.npy: No such file"])
        self.refused("run", "SwiGlu", "x=./", words=["not a regular file"])
        self.refused("run", "SwiGlu", "x=/dev/zero", words=["not a regular file"])
        os.mkfifo(self.path("pipe.npy"))
        self.refused("run", "SwiGlu", "x=pipe.npy", words=["not a regular file"])

    def test_empty_arrays(self):
        self.write("x.npy", npy(header(shape=f"(0, {2**40})")))
        self.refused("run", "SwiGlu", "x=x.npy", words=["empty"])  # by the operator
        for fortran in ("False", "True"):  # a product that no integer holds, of nothing
            self.write("x.npy", npy(header(fortran=fortran, shape=f"({2**62}, {2**62}, 0)")))
            self.refused("run", "SwiGlu", "x=x.npy", words=["exceeds 2^63 bytes"])
        np.save(self.path("x.npy"), np.ones((0, 4), np.float32))
        self.gradus("run", "SwiGlu", "x=x.npy", "out=y.npy", "--limits", "off")
        self.assertEqual(np.load(self.path("y.npy")).shape, (0, 2))

    def test_nothing_half_written(self):
        os.mkdir(self.path("y.npy"))
        self.refused("run", "SwiGlu", "out=y.npy", exit=4, words=["y.npy"])
        self.assertEqual(os.listdir(self.directory), ["y.npy"])


class Elsewhere(Files):
    """Archives, parts of files, stdin, directories."""

    def setUp(self):
        super().setUp()
        self.x = np.random.default_rng(7).standard_normal((6, 5, 8)).astype(np.float32)

    def run_on(self, word, **options):
        self.gradus("run", "SwiGlu", word, "out=y.npy", "--precision", "golden", **options)
        return np.load(self.path("y.npy"))

    def test_archives(self):
        for save in (np.savez, np.savez_compressed):
            save(self.path("a.npz"), x=self.x, other=self.x * 2)
            for word, want in (("x=a.npz", self.x), ("x=a.npz/other", self.x * 2), ("x=a.npz/x[1:3]", self.x[1:3])):
                np.testing.assert_allclose(self.run_on(word), swi_glu(want), rtol=1e-6)
            save(self.path("one.npz"), whatever=self.x)
            np.testing.assert_allclose(self.run_on("x=one.npz"), swi_glu(self.x), rtol=1e-6)
        np.savez(self.path("two.npz"), a=self.x, b=self.x)
        self.refused("run", "SwiGlu", "x=two.npz", words=["x: two.npz: it has no 'x', but a, b", "FILE.npz/NAME"])
        self.refused("diff", "two.npz", "a.npz/x", words=["two.npz: it has a, b", "FILE.npz/NAME"])
        self.gradus("diff", "x=a.npz", "b=two.npz")
        np.savez(self.path("f.npz"), x=np.asfortranarray(self.x), h=self.x.astype(np.float16))
        np.testing.assert_allclose(self.run_on("x=f.npz"), swi_glu(self.x), rtol=1e-6)
        self.assertEqual(self.run_on("x=f.npz/h").dtype, np.float16)

    def test_archives_that_lie(self):
        np.savez_compressed(self.path("a.npz"), x=self.x)
        whole = (self.directory / "a.npz").read_bytes()
        random = np.random.default_rng(0)
        for case in range(60):
            broken = bytearray(whole)
            if case % 2:
                broken = broken[:int(random.integers(len(whole)))]
            else:
                for _ in range(4):
                    broken[int(random.integers(len(whole)))] = int(random.integers(256))
            self.write("b.npz", bytes(broken))
            code = subprocess.run([BINARY, "run", "SwiGlu", "x=b.npz/x"], cwd=self.directory, capture_output=True,
                                  timeout=60).returncode
            self.assertIn(code, (0, 2), f"case {case}")
        at = whole.index(b"x.npy") + 60
        self.write("b.npz", whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1:])
        self.refused("run", "SwiGlu", "x=b.npz", words=["x: b.npz: "])

    def test_parts(self):
        np.save(self.path("a.npy"), self.x)
        for slice_, want in (("0:4", self.x[0:4]), ("::2", self.x[::2]), ("-2:", self.x[-2:]), ("1,:", self.x[1]),
                             ("...,0:4", self.x[..., 0:4]), ("1:99,-1", self.x[1:99, -1]), (":,2:3,::4", self.x[:, 2:3, ::4])):
            with self.subTest(slice_):
                np.testing.assert_allclose(self.run_on(f"x=a.npy[{slice_}]"), swi_glu(want), rtol=1e-6)
        self.x.tofile(self.path("a.bin"))
        np.testing.assert_allclose(self.run_on("x=a.bin:f32[6,5,8][2:4]"), swi_glu(self.x[2:4]), rtol=1e-6)
        for slice_, words in (("0:4:0", "step 0"), ("9,:", "index 9"), (":,:,:,:", "4 dims"), ("a:", "'a'"),
                              ("0:1:2:3", "begin:end:step"), ("...,...", "two ellipses")):
            self.refused("run", "SwiGlu", f"x=a.npy[{slice_}]", words=["x: ", words])
        self.refused("run", "SwiGlu", "x=randn[0:4]", words=["x: ", "part of a file"])

    def test_an_index(self):
        np.save(self.path("a.npy"), self.x)
        np.savez(self.path("a.npz"), x=self.x, other=self.x * 2)
        self.x.tofile(self.path("a.bin"))
        for word, want in (("a.npy[3]", self.x[3]), ("a.npy[-1]", self.x[-1]), ("a.npy[3,2]", self.x[3, 2]),
                           ("a.npy:f32[0,1:3]", self.x[0, 1:3]), ("a.npz/other[3]", self.x[3] * 2),
                           ("a.bin:f32[6,5,8][3]", self.x[3]), ("a.bin[6,5,8]:f32[3,2]", self.x[3, 2])):
            with self.subTest(word):
                np.testing.assert_allclose(self.run_on("x=" + word), swi_glu(want), rtol=1e-6)
                np.save(self.path("want.npy"), want)
                self.gradus("diff", word, "want.npy")
        self.gradus("check", "SwiGlu", "x=a.npy[3]", "--quick")
        report = self.json("diff", "--op", "SwiGlu", "out=y.npy", "x=a.npy[3,2]")
        self.assertEqual(report["arguments"]["x"], "file a.npy[3,2]")
        self.refused("run", "SwiGlu", "x=a.npy[6,5]", words=["x: [6,5]: index 6, the dim has 6"])
        self.refused("run", "SwiGlu", "x=a.npy[0][1]", words=["x: ", "'[1]' is not expected there"])

    def test_parts_of_two_files(self):
        np.save(self.path("a.npy"), self.x)
        for got, want in (("a.npy[3]", "a.npy[4]"), ("a.npy[0,1]", "a.npy[1,1]"), ("a.npy[0,1,2]", "a.npy[0,1,3]"),
                          ("a.npy[0:2]", "a.npy[1:3]")):
            self.gradus("diff", got, got)
            self.gradus("diff", got, want, exit=1)
        self.refused("diff", "a.npy[3]", "a.npy", words=["GOT has shape [5,8], WANT has [6,5,8]"])
        os.rename(self.path("a.npy"), self.path("a"))
        self.refused("diff", "a[3]", "a[4]", words=["a[3]", "a part"])

    def test_a_part_without_elements(self):
        np.save(self.path("a.npy"), self.x)
        for slice_ in ("4:2", "6:", "0:0", ":,5:9", "...,-1:3"):
            with self.subTest(slice_):
                word = f"a.npy[{slice_}]"
                self.refused("diff", word, word, words=["takes nothing of a dim of"])
                self.refused("run", "SwiGlu", "x=" + word, words=["x: ", "takes nothing of a dim of"])
        for slice_ in ("", " "):
            self.refused("diff", f"a.npy[{slice_}]", "a.npy", words=["expected an index"])

    def test_stdin(self):
        for save in (np.save, np.savez):
            content = io.BytesIO()
            save(content, self.x)
            done = subprocess.run([BINARY, "run", "SwiGlu", "x=-", "out=y.npy", "--precision", "golden"],
                                  input=content.getvalue(), cwd=self.directory, capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            np.testing.assert_allclose(np.load(self.path("y.npy")), swi_glu(self.x), rtol=1e-6)
        for content, words in ((b"", "x: -: "), (b"PK\5\6", "x: -: "), (b"abcdefghij", "not a .npy file")):
            done = subprocess.run([BINARY, "run", "SwiGlu", "x=-"], input=content, capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr.decode())
        done = subprocess.run([BINARY, "run", "SwiGluGrad", "x=-", "yGrad=-"], input=b"", capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 2)

    def test_directories(self):
        for name in ("got", "want"):
            os.mkdir(self.path(name))
            np.save(self.path(f"{name}/a.npy"), self.x)
            np.save(self.path(f"{name}/b.npy"), self.x * 2)
        self.gradus("diff", "got", "want")
        np.savez(self.path("want.npz"), a=self.x, b=self.x * 2)
        self.gradus("diff", "got", "want.npz")
        np.save(self.path("got/b.npy"), self.x * -2)
        found = self.json("diff", "got", "want", exit=1)
        self.assertEqual([(o["name"], o["pass"]) for o in found["outputs"]], [("a", True), ("b", False)])
        os.remove(self.path("want/b.npy"))
        self.refused("diff", "got", "want", words=["b is in GOT only"])


if __name__ == "__main__":
    unittest.main()
