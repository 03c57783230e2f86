"""Arrays of every layout, library and dtype: the same bits without copies, or a refusal that helps."""

import contextlib
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

import bounds
import formulas
import gradus
import numpy as np
from bounds import F16, F32, FLOATS, check
from exported import BFLOAT, Exported

try:
    import torch
except ImportError:
    torch = None


def layouts(a):
    """The same values in other memory: name → view."""
    turned = np.empty(a.shape[::-1], a.dtype).T
    stepped = np.zeros(tuple(2 * n + 1 for n in a.shape), a.dtype)[tuple(slice(1, None, 2) for _ in a.shape)]
    padded = np.zeros(a.shape[:-1] + (a.shape[-1] + 3,), a.dtype)[..., 2:2 + a.shape[-1]]
    moved = np.zeros(a.size + 1, a.dtype)[1:].reshape(a.shape)
    views = {"turned": turned, "stepped": stepped, "padded": padded, "moved": moved}
    for view in views.values():
        view[...] = a
    return views


class Layouts(unittest.TestCase):
    def expect_same(self, function, arrays, out_shape, kind):
        want = function(*arrays)
        for name in ("turned", "stepped", "padded", "moved"):
            with self.subTest(function=function.__name__, kind=kind.name, layout=name):
                views = [layouts(a)[name] for a in arrays]
                np.testing.assert_array_equal(function(*views), want)
                around = np.full(tuple(n + 2 for n in out_shape), 7, kind.dtype)
                inside = around[tuple(slice(1, -1) for _ in out_shape)]
                self.assertIs(function(*views, out=inside), inside)
                np.testing.assert_array_equal(inside, want)
                inside[...] = 7
                self.assertTrue((around == 7).all(), "written outside of the view")

    def test_any_view_gives_the_same_bits(self):
        random = np.random.default_rng(1)
        for kind in (F32, F16):
            x, g = kind.normals(random, 3, 4, 10), kind.normals(random, 3, 4, 5)
            self.expect_same(gradus.swi_glu, [x], g.shape, kind)
            self.expect_same(gradus.swi_glu_grad, [g, x], x.shape, kind)
            m = kind.normals(random, 2, 3, 7, 7)
            self.expect_same(gradus.exp_segsum, [m[0]], (3, 7, 7, 7), kind)
            self.expect_same(gradus.exp_segsum_backward, [m, m], (2, 3, 7), kind)
            mask = random.random(m.shape) < 0.3
            self.expect_same(gradus.scaled_masked_softmax, [m, mask], m.shape, kind)
            self.expect_same(gradus.scaled_masked_softmax_backward, [m, m, mask], m.shape, kind)

    def test_views_of_products(self):
        random = np.random.default_rng(2)
        x, w = F16.normals(random, 9, 12), F16.normals(random, 20, 12)
        target = random.integers(0, 20, 9)
        want = gradus.fused_linear_online_max_sum(x, w, target, 0, 20, return_logits=True)
        g = np.broadcast_to(np.float32(0.5), 9)  # one number for all tokens: a stride of 0
        grads = gradus.fused_linear_cross_entropy_loss_grad(np.full(9, 0.5, "f4"), x, w, want.target_mask, target,
                                                            max=want.max, sum=want.sum)
        for name in ("turned", "stepped", "padded"):
            vx, vw, vt = (layouts(a)[name] for a in (x, w, target))
            for a, b in zip(gradus.fused_linear_online_max_sum(vx, vw, vt, 0, 20, return_logits=True), want):
                np.testing.assert_array_equal(a, b)
            got = gradus.fused_linear_cross_entropy_loss_grad(g, vx, vw, want.target_mask, vt, max=want.max,
                                                              sum=want.sum)
            np.testing.assert_array_equal(got[0], grads[0])
            np.testing.assert_array_equal(got[1], grads[1])

    def test_dims_of_one_may_claim_any_stride(self):
        x = F32.normals(np.random.default_rng(3), 4, 8)
        odd = np.lib.stride_tricks.as_strided(x, (1, 4, 8), (-3, 32, 4))
        np.testing.assert_array_equal(gradus.swi_glu(odd)[0], gradus.swi_glu(x))

    def test_empty(self):
        for kind in FLOATS:
            with kind.options():
                def empty(*shape):
                    return np.empty(shape, kind.dtype)

                self.assertEqual(gradus.swi_glu(empty(0, 6)).shape, (0, 3))
                self.assertEqual(gradus.swi_glu_grad(empty(5, 0), empty(5, 0)).shape, (5, 0))
                self.assertEqual(gradus.exp_segsum(empty(2, 3, 0)).shape, (2, 3, 0, 0))
                mask = np.empty((3, 0), bool)
                self.assertEqual(gradus.scaled_masked_softmax(empty(1, 2, 3, 0), mask).shape, (1, 2, 3, 0))
        x, w, t = np.empty((0, 8), "f2"), np.ones((5, 8), "f2"), np.empty(0, "i8")
        s = gradus.fused_linear_online_max_sum(x, w, t, 0, 5, return_logits=True)
        self.assertEqual([a.shape for a in s], [(0,)] * 5 + [(0, 5)])
        dx, dw = gradus.fused_linear_cross_entropy_loss_grad(s.max, x, w, s.target_mask, t, max=s.max, sum=s.sum)
        self.assertEqual((dx.shape, dw.any()), ((0, 8), False))


class Refusals(unittest.TestCase):
    def refused(self, code, words, function, *arguments, **more):
        with self.assertRaises(gradus.Error) as caught:
            function(*arguments, **more)
        self.assertEqual(caught.exception.code, code)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_what_c_cannot_describe(self):
        x = np.ones((4, 8), "f4")
        self.refused(161002, ["aclnnSwiGlu: x:", "(-8, 1)", "np.ascontiguousarray"], gradus.swi_glu, x[::-1])
        packed = np.zeros(6, [("a", "u1"), ("b", "f4")])["b"]
        self.refused(161002, ["x:", "strides (5,) in bytes", "multiples of the 4", "np.ascontiguousarray"],
                     gradus.swi_glu, packed)
        moved = np.zeros(33, "u1")[1:].view("f4")
        self.refused(161002, ["x:", "multiple of 4 bytes", "x.copy()"], gradus.swi_glu, moved)
        for works in (np.ascontiguousarray(packed), moved.copy(), np.ascontiguousarray(x[::-1])):
            gradus.swi_glu(works)
        self.refused(161002, ["x:", "byte order", "newbyteorder"], gradus.swi_glu, x.astype(">f4"))
        self.refused(161002, ["x:", "dtype str", "bfloat16"], gradus.swi_glu, np.array(["a", "b"]))
        frozen = np.empty((4, 4), "f4")
        frozen.flags.writeable = False
        self.refused(161002, ["out:", "read-only"], gradus.swi_glu, x, out=frozen)
        x.flags.writeable = False  # inputs may be
        gradus.swi_glu(x)

    def test_what_c_refuses(self):
        x = np.ones((4, 8), "f4")
        self.refused(161002, ["aclnnSwiGlu: x: dtype int32, expected f32, f16 or bf16"], gradus.swi_glu, x.astype("i4"))
        self.refused(161002, ["aclnnSwiGlu: dim: 2, expected -2 to 1"], gradus.swi_glu, x, 2)
        self.refused(161002, ["aclnnSwiGlu: x:", "7"], gradus.swi_glu, x[:, :7])
        self.refused(161002, ["out", "[4, 5]", "[4, 4]"], gradus.swi_glu, x, out=np.empty((4, 5), "f4"))
        self.refused(161002, ["out", "f16"], gradus.swi_glu, x, out=np.empty((4, 4), "f2"))
        self.refused(161002, ["overlap"], gradus.swi_glu, x, out=x[:, :4])
        self.refused(161002, ["aclnnExpSegsum: self:", "rank"], gradus.exp_segsum, np.array(1, "f4"))
        self.refused(161002, ["mask", "dtype uint8"], gradus.scaled_masked_softmax, np.ones((1, 1, 2, 2), "f4"),
                     np.zeros((2, 2), "u1"))
        self.refused(161002, ["mask"], gradus.scaled_masked_softmax, np.ones((1, 1, 2, 2), "f4"),
                     np.zeros((1,) * 5, bool))
        self.refused(161002, ["input: dtype f32"], gradus.fused_linear_online_max_sum, x, x, np.zeros(4, "i8"), 0, 4)
        self.refused(161002, ["vocabEndIndex"], gradus.fused_linear_online_max_sum, x.astype("f2"), x.astype("f2"),
                     np.zeros(4, "i8"), 3, 2)
        self.refused(161001, ["logitsMaxOptional"], gradus.fused_linear_cross_entropy_loss_grad, np.ones(4, "f4"),
                     x.astype("f2"), x.astype("f2"), np.zeros(1, "u1"), np.zeros(4, "i8"))
        q = np.ones((4, 2, 16), "f2")
        self.refused(161002, ["topkIndices: dtype f32"], gradus.nsa_selected_attention, q, q, q,
                     np.zeros((4, 2, 1), "f4"), scale=1, block_size=16, block_count=1)
        self.refused(161002, ["selectedBlockSize: 17"], gradus.nsa_selected_attention, q, q, q,
                     np.zeros((4, 2, 1), "i4"), scale=1, block_size=17, block_count=1)
        self.refused(161002, ["aclCreateTensor", "dimensions, expected at most 25"], gradus.swi_glu,
                     np.ones((1,) * 26, "f4"))

    def test_call(self):
        x = np.ones((4, 8), "f4")
        self.refused(161002, ["Nope, expected one of", "SwiGluGrad"], gradus.call, "Nope", x=x)
        self.refused(161002, ["aclnnSwiGlu: y: unknown argument, expected one of x, dim, out"], gradus.call, "SwiGlu",
                     y=x)
        self.refused(161001, ["aclnnSwiGlu: out"], gradus.call, "SwiGlu", x=x, out=None)
        self.refused(161002, ["dim:", str(2**63), "64 bits"], gradus.call, "SwiGlu", x=x, dim=2**63)
        for arguments in ({"x": [1.0, 2.0]}, {"x": 1.0}, {"x": np.float32(1)}, {"x": x, "dim": 1.5}):
            with self.assertRaisesRegex(TypeError, "^aclnnSwiGlu: (x|dim): "):
                gradus.call("SwiGlu", **arguments)
        with self.assertRaisesRegex(TypeError, "aclnnNsaSelectedAttention: inputLayout: int, expected a string"):
            gradus.call("NsaSelectedAttention", inputLayout=3)

    def test_error_is_an_exception_like_others(self):
        import pickle
        error = pickle.loads(pickle.dumps(gradus.Error(161002, "a: b")))
        self.assertEqual((error.code, error.message, str(error)), (161002, "a: b", "a: b"))
        self.assertIsInstance(error, RuntimeError)


class DLPack(unittest.TestCase):
    def test_memory_of_others(self):
        random = np.random.default_rng(4)
        x = F32.normals(random, 3, 8)
        want = gradus.swi_glu(x)
        for versioned in (False, True):
            for strides, view in ((None, x), ((8, 1), x), ((1, 3), np.asfortranarray(x))):
                given = Exported(view.ctypes.data, (3, 8), strides, versioned=versioned, owner=view)
                np.testing.assert_array_equal(gradus.swi_glu(given), want)
        moved = Exported(x.ctypes.data, (2, 8), None, byte_offset=32)
        np.testing.assert_array_equal(gradus.swi_glu(moved), want[1:])
        out = np.empty((3, 4), "f4")
        result = Exported(out.ctypes.data, (3, 4), None, versioned=True)
        self.assertIs(gradus.swi_glu(x, out=result), result)
        np.testing.assert_array_equal(out, want)

    def test_bf16_without_a_numpy_dtype(self):
        """bf16 are the upper halves of f32."""
        random = np.random.default_rng(5)
        x = (random.standard_normal((3, 8)).astype("f4").view("u4") >> 16).astype("u2")
        y = np.empty((3, 4), "u2")
        given, out = (Exported(a.ctypes.data, a.shape, None, BFLOAT, 16) for a in (x, y))
        gradus.swi_glu(given, out=out)
        wide = (x.astype("u4") << 16).view("f4")
        got, want = (y.astype("u4") << 16).view("f4"), formulas.swi_glu(F32, wide, -1).want
        self.assertTrue((np.abs(got - want) <= 2.0**-7 * np.abs(want)).all())
        if bounds.ml_dtypes is None:
            with self.assertRaisesRegex(ImportError, "ml_dtypes"):
                gradus.swi_glu(given)

    def test_refusals(self):
        memory = np.ones(8, "f4")
        cases = {"device 2": {"device": 2}, "float32x4": {"lanes": 4}, "float24": {"bits": 24}, "type 9": {"code": 9},
                 "DLPack version 2": {"versioned": True, "major": 2}}
        for words, arguments in cases.items():
            with self.assertRaisesRegex(gradus.Error, f"aclnnSwiGlu: x: .*{words}"):
                gradus.swi_glu(Exported(memory.ctypes.data, (8,), None, **arguments))
        with self.assertRaisesRegex(gradus.Error, "ascontiguousarray"):
            gradus.swi_glu(Exported(memory.ctypes.data + 28, (8,), (-1,)))
        out = Exported(memory.ctypes.data, (4,), None, versioned=True, readonly=True)
        with self.assertRaisesRegex(gradus.Error, "out: a read-only array"):
            gradus.swi_glu(memory.copy(), out=out)

    @unittest.skipIf(torch is None, "needs PyTorch")
    def test_torch_tensors(self):
        torch.manual_seed(0)
        for kind, dtype in zip(FLOATS, (torch.float32, torch.float16, torch.bfloat16, torch.float64)):
            with self.subTest(dtype=dtype), kind.options():
                x = torch.randn(6, 5).to(dtype).T[1:]  # transposed, with an offset
                y = gradus.swi_glu(x)
                check(kind, y, formulas.swi_glu(kind, kind.make(x.double().numpy()), -1), elementwise=True)
                out = torch.empty(4, 3, dtype=dtype)
                self.assertIs(gradus.swi_glu(x, out=out), out)
                np.testing.assert_array_equal(out.double().numpy(), y.astype("f8"))
        with self.assertRaisesRegex(BufferError, "aclnnSwiGlu: x: .*gradient"):
            gradus.swi_glu(torch.ones(4, requires_grad=True))
        with self.assertRaisesRegex(ValueError, "aclnnSwiGlu: x: .*meta"):
            gradus.swi_glu(torch.ones(4, device="meta"))

    def test_memory_is_given_back(self):
        x = np.ones(8, "f4")
        before = sys.getrefcount(x)
        for _ in range(3):
            gradus.swi_glu(x)
            with self.assertRaises(gradus.Error):
                gradus.swi_glu(x, 7)
        self.assertEqual(sys.getrefcount(x), before)


    def test_handles_are_given_back(self):
        c, handles = gradus._library._c, []
        create = {name: getattr(c, name) for name in ("aclCreateTensor", "aclCreateIntArray")}

        def recorded(name):
            def function(*arguments):
                handles.append((name, create[name](*arguments)))
                return handles[-1][1]
            return mock.patch.object(c, name, function)

        q, topk = np.ones((4, 2, 16), "f2"), np.zeros((4, 2, 1), "i4")
        with recorded("aclCreateTensor"), recorded("aclCreateIntArray"):
            for block_size in (16, 17):  # 17 is refused
                with contextlib.suppress(gradus.Error):
                    gradus.nsa_selected_attention(q, q, q, topk, scale=1, block_size=block_size, block_count=1, seq_q=[4],
                                                  seq_kv=[4])
        self.assertEqual(len(handles), 2 * (8 + 2))
        for name, handle in handles:
            self.assertNotEqual(getattr(c, name.replace("Create", "Destroy"))(handle), 0, f"{name}: still alive")


class Import(unittest.TestCase):
    def run_python(self, code):
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                              cwd=Path(__file__).parent).stdout

    def test_leaves_torch_alone(self):
        self.assertEqual(self.run_python("import gradus, sys; print('torch' in sys.modules)"), "False\n")

    def test_without_numpy(self):
        code = """
import sys
sys.modules["numpy"] = None
import gradus
from exported import of_floats
x, _ = of_floats([-2.0, 14.0])
out, result = of_floats([0.0])
gradus.call("SwiGlu", x=x, out=out)
print(gradus.__version__ == gradus._library.version(), len(gradus.catalogue()), round(result[0], 3))
try:
    gradus.swi_glu(x)
except ImportError as error:
    print(error)
"""
        lines = self.run_python(code).splitlines()
        self.assertEqual(lines[0], "True 11 -3.338")
        self.assertIn("need NumPy: pip install 'gradus-ops[numpy]'", lines[1])

    def test_without_a_library(self):
        code = """
import importlib.util, os, shutil, sys, tempfile
home, package = tempfile.mkdtemp(), os.path.dirname(importlib.util.find_spec("gradus").origin)
shutil.copytree(package, home + "/gradus", ignore=shutil.ignore_patterns("*.so*", "torch*"))
open(home + "/libgradus.so", "w").write("no library " * 99)
sys.path.insert(0, home)
os.environ["GRADUS_HOME"] = home
os.environ.pop("ASCEND_HOME_PATH", None)
try:
    import gradus
except ImportError as error:
    print(error)
shutil.rmtree(home)
"""
        text = self.run_python(code)
        for words in ("no usable libgradus.so", "GRADUS_HOME", "ASCEND_HOME_PATH", "invalid ELF header"):
            self.assertIn(words, text)


if __name__ == "__main__":
    unittest.main()
