"""gradus run: made-up tensors, what follows from what, options, results."""
import json
import shlex
import unittest

import numpy as np

from common import USAGE, Case

KNOWN = [-23442, 84251, -55173, 22585]


class MadeUp(Case):
    def values(self, generator, options="", dtype="f32"):
        """The numbers themselves: the gradient of a 2 by 2 matrix is its lower left element, times gradSelf."""
        self.gradus("run", "ExpSegsumBackward", f"gradOutput={generator}[1,4096,2,2]:{dtype}{options}", "gradSelf=ones",
                    "gradInput=y.npy", "--precision", "golden")
        return np.load(self.path("y.npy"))[0, :, 1].astype(np.float64)

    def test_distributions(self):
        normal = self.values("randn")
        self.assertLess(abs(normal.mean()), 0.1)
        self.assertLess(abs(normal.std() - 1), 0.1)
        self.assertGreater(np.unique(normal).size, 3500)
        moved = self.values("randn", ",mean=5,std=0.5")
        self.assertLess(abs(moved.mean() - 5), 0.1)
        uniform = self.values("uniform", ",low=-2,high=4")
        self.assertTrue(((uniform >= -2) & (uniform < 4)).all())
        self.assertLess(abs(uniform.mean() - 1), 0.2)
        self.assertTrue((self.values("full", ",value=-3") == -3).all())
        self.assertTrue((self.values("ones") == 1).all())
        self.assertTrue((self.values("zeros") == 0).all())
        np.testing.assert_array_equal(self.values("arange", ",start=1,step=0.5"), 1 + 0.5 * (np.arange(4096) * 4 + 2))
        self.assertEqual(set(self.values("index", ",low=3,high=6")), {3, 4, 5})
        self.assertLess(abs(self.values("randbool", ",p=0.25").mean() - 0.25), 0.05)

    def test_the_same_numbers_everywhere(self):
        # Written down once; a machine that makes others up breaks every line that reproduces a failure.
        self.assertEqual(list(self.values("randn")[:4] * 2**16), KNOWN)
        np.testing.assert_array_equal(self.values("randn", ",seed=0"), self.values("randn"))
        self.assertFalse((self.values("randn", ",seed=1") == self.values("randn")).any())

    def test_arguments_differ(self):
        ran = self.json("run", "ScaledMaskedSoftmaxBackward", "y=randn[1,1,1,8]", "gradOutput=randn", "mask=zeros")
        self.assertNotEqual(ran["outputs"]["out"]["first"][0], 0)

    def test_causal_mask(self):
        self.gradus("run", "ScaledMaskedSoftmax", "x=zeros[1,1,4,4]", "mask=causal_mask[1,1,4,4]", "y=y.npy")
        want = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
        np.testing.assert_allclose(np.load(self.path("y.npy"))[0, 0], want, rtol=1e-6)

    def test_topk_selects_what_is_there(self):
        sizes = "T1=96 T2=96 N1=2 N2=1 D=128 Dv=128 selectedBlockSize=16 selectedBlockCount=3".split()
        for extra in ([], ["sparseMode=2", "attenMaskOptional=zeros[1,1]"],
                      ["actualSeqQLenOptional=[48,96]", "actualSeqKvLenOptional=[48,T2]"]):
            ran = self.json("run", "NsaSelectedAttention", *sizes, *extra)
            # a row that selects no key has a sum of 0
            self.assertGreater(ran["outputs"]["softmaxSumOut"]["min"], 0.9)

    def test_refusals(self):
        for words, message in (
            (["x=rand[2,4]"], ["x: 'rand' is neither a file nor a generator", "did you mean randn?"]),
            (["x=randn[2,4"], ["']' is missing"]),
            (["x=randn[2,4]:f33"], ["x: dtype 'f33', expected one of f32, f16"]),
            (["x=randn[2,4],sigma=3"], ["x: randn: unknown option 'sigma'", "mean=0,std=1"]),
            (["x=randn[2,4],std"], ["'std', expected option=value"]),
            (["x=randn[2,4],std=1/"], ["it ends too early"]),
            (["x=randn[2,N]"], ["the size N is not known"]),
            (["x=randn[2,4.5]"], ["'4.5' is 4.5, expected an integer"]),
            (["x=randn[2,-4]"], ["negative"]),
            (["x=randn[2,4]", "x=randn[2,4]"], ["x: given twice"]),
            (["x=[2,4]", "dim=one"], ["dim: 'one': the size one is not known"]),
            (["x=[2,4]", "dim=7"], ["x: shape [2,4], expected ...,2*N,... where dim is 7"]),
            (["x=[2,5]"], ["x: shape [2,5], expected ...,2*N,..."]),
            (["x=index[2,4]"], ["high="]),
            (["N=4"], ["x: its shape (...,2*N,...) does not follow", "give x=[..]"]),
            (["x=none"], ["x: it is not optional"]),
            (["x=[2,4]", "seed=a"], ["seed: "]),
            (["x=[2,4]:f32", "out=[2,2]:bf16"], ["out"]),
            (["x=randn[" + "(" * 100 + "1]"], ["nested too deeply"]),
        ):
            with self.subTest(words):
                self.refused("run", "SwiGlu", *words, words=message)
        self.refused("run", "ScaledMaskedSoftmax", "x=[1,1,2,4]", "mask=causal_mask[4]", words=["mask: causal_mask", "rank 2"])
        self.refused("run", "NsaSelectedAttention", "T1=4", words=["D", "is not known"])


class Follows(Case):
    def shapes(self, op, *words):
        ran = self.json("run", op, *words)
        return {name: (t["dtype"], t["shape"]) for name, t in {**ran["inputs"], **ran["outputs"]}.items()}

    def test_shapes_and_dtypes(self):
        self.assertEqual(self.shapes("SwiGluGrad", "x=[3,8]:bf16"),
                         {"x": ("bf16", [3, 8]), "yGrad": ("bf16", [3, 4]), "out": ("bf16", [3, 8])})
        self.assertEqual(self.shapes("SwiGluGrad", "yGrad=[2,3,5]:f16", "dim=1")["out"], ("f16", [2, 6, 5]))
        self.assertEqual(self.shapes("ExpSegsum", "self=[2,3,4,5]")["out"], ("f32", [2, 3, 4, 5, 5]))
        self.assertEqual(self.shapes("ExpSegsum", "T=5", "N=[1,2]", "dtype=f16")["self"], ("f16", [1, 2, 5]))
        stats = self.shapes("FusedLinearOnlineMaxSum", "BT=9", "V=16", "H=4", "target=zeros:int64",
                            "vocabParallelLogitsOutOptional=auto")
        self.assertEqual(stats["targetMaskOut"], ("uint8", [2]))
        self.assertEqual(stats["maskedTargetOut"], ("int64", [9]))
        self.assertEqual(stats["vocabParallelLogitsOutOptional"], ("f16", [9, 16]))
        self.assertEqual(self.shapes("ScaledMaskedSoftmax", "x=[2,3,4,5]", "mask=[1,3,4,5]")["y"], ("f32", [2, 3, 4, 5]))

    def test_optional_arguments(self):
        words = ["FusedCrossEntropyLossWithMaxSum", "BT=5", "V=7"]
        self.assertIn("softMaxOutOptional", self.shapes(*words))
        without = self.shapes(*words, "vocabParallelLogitsOptional=none", "softMaxOutOptional=none")
        self.assertNotIn("softMaxOutOptional", without)
        self.refused("run", *words, "vocabParallelLogitsOptional=none", words=["vocabParallelLogitsOptional"])

    def test_attributes(self):
        ran = self.json("run", "NsaSelectedAttention", "D=128", "Dv=128", "T1=4", "T2=48", "N1=2", "N2=2",
                        "topkIndices=zeros[4,2,3]", "selectedBlockSize=16")
        self.assertEqual(ran["attributes"]["selectedBlockCount"], 3)
        self.assertEqual(ran["attributes"]["headNum"], 2)
        self.assertAlmostEqual(ran["attributes"]["scaleValue"], 128**-0.5)
        self.assertEqual(self.json("run", "ScaledMaskedSoftmax", "scale=-inf")["attributes"]["scale"], "-inf")

    def test_saved_tensors_come_from_the_forward(self):
        np.save(self.path("x.npy"), np.random.default_rng(5).standard_normal((1, 1, 2, 3)).astype(np.float32))
        self.gradus("run", "ScaledMaskedSoftmax", "x=randn[1,1,2,3]", "mask=zeros", "y=y.npy")
        with_file = self.json("run", "ScaledMaskedSoftmaxBackward", "y=y.npy", "mask=zeros", "gradOutput=auto", "scale=1")
        self.assertEqual(with_file["outputs"]["out"]["shape"], [1, 1, 2, 3])
        row = with_file["outputs"]["out"]["first"][:3]
        self.assertAlmostEqual(sum(row), 0, places=5)  # a gradient through softmax

    def test_the_library_judges_the_shapes(self):
        self.refused("run", "SwiGluGrad", "x=[2,8]", "yGrad=[2,3]", words=["yGrad: shape [2, 3], expected [2, 4]"])


class Results(Case):
    def test_summary(self):
        ran = self.json("run", "SwiGlu", "x=zeros[2,4]:bf16")
        self.assertEqual(ran["outputs"]["out"], {"dtype": "bf16", "shape": [2, 2], "min": 0, "max": 0, "mean": 0,
                                                 "nan": 0, "inf": 0, "first": [0, 0, 0, 0]})
        nan = self.json("run", "SwiGlu", "x=full[2,4],value=nan")["outputs"]["out"]
        self.assertEqual((nan["nan"], nan["min"], nan["first"]), (4, "nan", ["nan"] * 4))
        inf = self.json("run", "SwiGlu", "x=full[2,4]:f16,value=inf")["outputs"]["out"]
        self.assertEqual((inf["inf"], inf["first"][0]), (4, "inf"))
        text = self.gradus("run", "SwiGlu", "x=ones[2,4]")
        for word in ("SwiGlu (fast)", "[2,2]", "0.731059", "dim=-1", "workspace", "path"):
            self.assertIn(word, text)

    def test_files(self):
        text = self.gradus("run", "SwiGluGrad", "x=[2,4]", "-o", "results", "out=mine.npy")
        self.assertIn("-> mine.npy", text)
        self.assertEqual(np.load(self.path("mine.npy")).shape, (2, 4))
        self.gradus("run", "NsaSelectedAttentionGrad", "-o", "results")
        for name in ("dqOut", "dkOut", "dvOut"):
            np.load(self.path(f"results/{name}.npy"), allow_pickle=False)

    def test_inputs_for_another_kernel(self):
        call = ["SwiGluGrad", "x=[4,6]:f16", "seed=2"]
        self.gradus("run", *call, "--inputs", "case", "out=a.npy")
        x, dy = (np.load(self.path(f"case/{name}.npy")).astype(np.float64) for name in ("x", "yGrad"))
        a, b = x[:, :3], x[:, 3:]
        s = 1 / (1 + np.exp(-a))
        want = np.concatenate([dy * b * (s + s * (1 - s) * a), dy * a * s], axis=1)
        np.testing.assert_allclose(np.load(self.path("a.npy")).astype(np.float64), want, rtol=2e-3, atol=1e-6)
        self.gradus("run", "SwiGluGrad", "x=case/x.npy", "yGrad=case/yGrad.npy", "out=b.npy")
        np.testing.assert_array_equal(np.load(self.path("a.npy")), np.load(self.path("b.npy")))

    def test_options(self):
        words = ["SwiGluGrad", "x=[64,256]:f32"]
        golden = self.json("run", *words, "--precision", "golden")
        self.assertEqual((golden["precision"], golden["path"]), ("golden", "golden"))
        self.assertEqual(self.json("run", *words, "--isa", "scalar")["path"], "scalar")
        fast = self.json("run", *words, "--threads", "1", "--repeat", "5")
        self.assertEqual(fast["repeat"], 5)
        self.assertGreaterEqual(fast["median_seconds"], fast["seconds"])
        self.assertGreater(fast["gigabytes_per_second"], 0)
        np.testing.assert_allclose(fast["outputs"]["out"]["first"], golden["outputs"]["out"]["first"], rtol=1e-5)
        self.assertIn("median of 3", self.gradus("run", *words, "--repeat", "3"))
        long_rows = ["ScaledMaskedSoftmax", "x=[1,1,1,5000]", "mask=zeros"]
        self.refused("run", *long_rows, words=["GRADUS_LIMITS=off"])
        self.gradus("run", *long_rows, "--limits", "off")

    def test_f64_in_golden(self):
        self.gradus("run", "SwiGlu", "x=randn[4,6]:f64", "--inputs", "case", "out=y.npy", "--precision", "golden")
        x, y = np.load(self.path("case/x.npy")), np.load(self.path("y.npy"))
        self.assertEqual((x.dtype, y.dtype), (np.float64, np.float64))
        np.testing.assert_allclose(y, x[:, :3] / (1 + np.exp(-x[:, :3])) * x[:, 3:], rtol=1e-14)
        self.gradus("run", "SwiGlu", "x:f64=case/x.npy", "out=m.npy", "--precision", "magnitude")
        self.assertTrue((np.load(self.path("m.npy")) >= np.abs(y)).all())
        self.refused("run", "SwiGlu", "x:f64=case/x.npy", words=["f64", "golden or magnitude"])
        for operator in self.json("list")["operators"]:
            for precision in ("golden", "magnitude"):
                with self.subTest(operator=operator["name"], precision=precision):
                    ran = self.json("run", operator["name"], "dtype=f64", "--precision", precision)
                    floats = {t["dtype"] for t in ran["outputs"].values()} - {"uint8", "int32", "int64"}
                    self.assertEqual((floats, ran["path"]), ({"f64"}, precision))

    def test_the_line_makes_it_again(self):
        first = self.json("run", "SwiGluGrad", "x=uniform[4,8]:bf16,low=-1,seed=9", "seed=4")
        again = self.json("run", "SwiGluGrad", *shlex.split(first["arguments"]))
        self.assertEqual(first["outputs"], again["outputs"])

    def test_json_is_all_of_stdout(self):
        json.loads(self.gradus("run", "SwiGlu", "--json"))
        self.assertEqual(self.stderr, "")
        json.loads(self.gradus("run", "SwiGlu", "x=bad", "--json", exit=USAGE))


if __name__ == "__main__":
    unittest.main()
