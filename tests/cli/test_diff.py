"""gradus diff: a wrong kernel is told from a differently rounded one."""
import unittest

import faults
import numpy as np
from common import MISMATCH, RIGHT, USAGE, Case

DTYPES = ("f32", "f16", "bf16")

# operator, output, the words of its call; 16-bit only where the operator is.
OPERATORS = {
    "SwiGluGrad": ("out", ["x=randn[12,8,256],seed=3", "yGrad=randn[12,8,128],seed=4"], DTYPES),
    "ScaledMaskedSoftmaxBackward": ("out", ["B=2", "H=3", "S=96", "N=96", "scale=0.125"], DTYPES),
    "FusedLinearCrossEntropyLossGrad": ("inputGradOut", ["BT=64", "V=256", "H=80"], ("f16", "bf16")),
}

# mistake: words of the sentence.
MISTAKES = {
    "sign_element": r"^element \[[\d,]+\] has the opposite sign",
    "sign_row": r"^row \[[\d,]+\] of \d+ .*has the opposite sign",
    "wrong_row": r"^row \[[\d,]+\] of \d+ .*is wrong",
    "stale_row": r"^row \[[\d,]+\] of \d+ .*holds what belongs in the row before",
    "shifted_row": r"^row \[[\d,]+\] of \d+ .*holds what belongs one element before",
    "shifted": r"holds? what belongs one element before",
    "row_tail": r"^the last 5 of every row .*are zero, as if they had not been written",
    "tail": r"^the last 5 of the tensor .*are zero, as if they had not been written",
    "nan": r"^element \[[\d,]+,3\] is NaN where a number is expected",
    "nan_tail": r"^the last 3 of every row .*are NaN",
    "overflow": r"^element \[[\d,]+\] is Inf where .*overflows",
    "scale": r"^everything is 0.125 \(1/8\) times the expected",
    "scale_third": r"^everything is 0.333\d* \(1/3\) times the expected",
    "zero": r"^everything is zero",
    "constant": r"^row \[[\d,]+\] of \d+ .*holds 7.25",
    "halves": r"the halves are exchanged",
    "unlike": r"^unlike what is expected: .*correlation -?0\.0",
}


class DiffCase(Case):
    def save(self, name, array):
        np.save(self.path(name), array)
        return name

    def write(self, name, values, dtype, how=np.rint):
        """A file of that dtype, as a word for diff."""
        self.save(name, faults.stored(values, dtype, how))
        return f"{name}:bf16" if dtype == "bf16" else name

    def result(self, operator, words, output, precision, dtype):
        """What the library itself gives, as f64."""
        self.gradus("run", operator, *words, f"dtype={dtype}", f"{output}=result.npy", "--precision", precision)
        return faults.loaded(np.load(self.path("result.npy")), dtype)

    def diff(self, *words, verdict):
        right = verdict in ("equal", "kept", "rounded")
        report = self.json("diff", *words, exit=RIGHT if right else MISMATCH)
        self.assertEqual(report["schema"], "gradus-diff/2")
        self.assertEqual(report["pass"], right)
        (output,) = report["outputs"]
        self.assertEqual(output["verdict"], verdict, output["reason"])
        return output


class Mistakes(DiffCase):
    def each(self):
        for operator, (output, words, dtypes) in OPERATORS.items():
            for dtype in dtypes:
                fast = self.result(operator, words, output, "fast", dtype)
                golden = self.result(operator, words, output, "golden", dtype)
                yield operator, output, words + [f"dtype={dtype}"], dtype, fast, golden

    def test_planted_in_real_results(self):
        for operator, output, words, dtype, fast, golden in self.each():
            want = self.write("want.npy", golden, dtype)
            for mistake, sentence in MISTAKES.items():
                with self.subTest(operator=operator, dtype=dtype, mistake=mistake):
                    got = self.write("got.npy", faults.plant(mistake, fast, dtype), dtype)
                    found = self.diff(got, want, verdict="wrong")
                    self.assertRegex(found["reason"], sentence)

    def test_right_results_are_right(self):
        for operator, output, words, dtype, fast, golden in self.each():
            with self.subTest(operator=operator, dtype=dtype):
                got = self.write("got.npy", fast, dtype)
                self.assertTrue(self.json("diff", "--op", operator, f"{output}={got}", *words)["pass"])
                self.gradus("diff", got, self.write("want.npy", golden, dtype))
                self.diff(self.write("same.npy", golden, dtype), "--op", operator, "--only", output, *words,
                          verdict="equal")

    def test_truncation(self):
        for operator, output, words, dtype, fast, golden in self.each():
            with self.subTest(operator=operator, dtype=dtype):
                # the reference before its last rounding shows truncation best; half of the rounded ones do, too
                fine = golden * (1 + np.random.default_rng(1).uniform(-0.5, 0.5, golden.shape) * 2.0 ** -faults.DIGITS[dtype])
                got = self.write("got.npy", fine, dtype, np.trunc)
                found = self.diff(got, self.write("want.npy", fine, dtype), verdict="rounded")
                self.assertRegex(found["reason"], "towards zero and of one ulp .*: truncated, not rounded to nearest")
                self.assertLess(found["ulps"]["bias"], -0.1)
                if dtype != "f32":
                    found = self.diff(got, self.save("fine.npy", fine), verdict="rounded")
                    self.assertRegex(found["reason"], "towards zero and below one ulp .*: truncated")


class Precision(DiffCase):
    def sums(self, dtype, length, carried):
        draw = np.random.default_rng(length)
        a = faults.rounded(draw.normal(size=(32, length)), dtype)
        b = faults.rounded(draw.normal(size=(length, 48)), dtype)
        got = faults.accumulated(np.stack([a[:, k:k + 1] * b[k] for k in range(length)]), carried)
        return self.write("got.npy", got, dtype), self.write("want.npy", a @ b, dtype)

    def test_sums_carried_in_16_bits(self):
        for dtype in DTYPES:
            for length in (128, 1024):
                with self.subTest(dtype=dtype, length=length):
                    found = self.diff(*self.sums(dtype, length, "bf16"), verdict="imprecise")
                    self.assertIn("looks like sums carried in bf16", found["reason"])
                    self.assertGreater(found["relative_l2"], 2.0**-9)

    def test_f32_sums_in_any_order(self):
        for dtype in DTYPES:
            for length in (16, 128, 1024, 4096):
                with self.subTest(dtype=dtype, length=length):
                    report = self.json("diff", *self.sums(dtype, length, "f32"))
                    self.assertTrue(report["pass"])

    def test_numpy_in_f32(self):
        draw = np.random.default_rng(2)
        for dtype in DTYPES:
            x = faults.rounded(draw.normal(size=(64, 512)), dtype)
            grad = faults.rounded(draw.normal(size=(64, 256)), dtype)
            for array, name in ((x, "x"), (grad, "g")):
                self.write(f"{name}.npy", array, dtype)
            numpy = faults.swi_glu_grad(grad.astype(np.float32), x.astype(np.float32))
            tag = ":bf16" if dtype == "bf16" else ""
            with self.subTest(dtype=dtype):
                got = self.write("got.npy", numpy, dtype)
                report = self.json("diff", "--op", "SwiGluGrad", f"out={got}", f"x=x.npy{tag}", f"yGrad=g.npy{tag}")
                self.assertIn(report["outputs"][0]["verdict"], ("equal", "kept"))

    def test_every_fast_result(self):
        for operator in self.gradus("list", "--names").split():
            for dtype in DTYPES:
                described = self.json("describe", operator)["operator"]
                outputs = [a for a in described["arguments"] if a["direction"] == "output" and not a["optional"]]
                if not any(dtype in a.get("dtypes", []) for a in outputs):
                    continue
                words = [f"dtype={dtype}", "seed=11"]
                files = [f"{a['name']}={a['name']}.npy" for a in outputs]
                with self.subTest(operator=operator, dtype=dtype):
                    self.gradus("run", operator, *words, *files)
                    report = self.json("diff", "--op", operator, *words, *files)
                    self.assertEqual(len(report["outputs"]), len(outputs))
                    self.assertTrue(report["pass"])


class Explanations(DiffCase):
    WORDS = ["x=randn[40,256]:{0},seed=3", "yGrad=randn[40,128]:{0},seed=4"]

    def explained(self, values, dtype, how=np.rint, verdict="imprecise"):
        words = [word.format(dtype) for word in self.WORDS]
        got = self.write("got.npy", values, dtype, how)
        found = self.diff("--op", "SwiGluGrad", f"out={got}", *words, verdict=verdict)
        return [e["sentence"] for e in found["explanations"] if e["explains"]], found

    def golden(self, dtype):
        return self.result("SwiGluGrad", [word.format(dtype) for word in self.WORDS], "out", "golden", dtype)

    def test_result_through_a_narrower_type(self):
        for narrow in ("bf16", "f16"):
            sentences, found = self.explained(faults.rounded(self.golden("f32"), narrow), "f32")
            self.assertEqual(sentences, [f"Explained: GOT is the golden answer rounded first to {narrow}, then to f32."])
            self.assertIn(f"every value is a number of {narrow}", found["reason"])
        sentences, _ = self.explained(faults.rounded(self.golden("f32"), "bf16", np.trunc), "f32")
        self.assertEqual(sentences, ["Explained: GOT is the golden answer truncated to bf16."])

    def test_truncated_last_rounding(self):
        draw = np.random.default_rng(8)
        x, grad = (faults.rounded(draw.normal(size=shape), "bf16") for shape in ((40, 256), (40, 128)))
        words = ["x=" + self.write("x.npy", x, "bf16"), "yGrad=" + self.write("g.npy", grad, "bf16")]
        got = self.write("got.npy", faults.swi_glu_grad(grad, x), "bf16", np.trunc)
        found = self.diff("--op", "SwiGluGrad", f"out={got}", *words, verdict="rounded")
        self.assertIn("truncated, not rounded", found["reason"])
        self.assertEqual(found["explanations"][0]["sentence"], "Explained: GOT is the golden answer truncated to bf16.")

    def test_inputs_of_a_narrower_type(self):
        draw = np.random.default_rng(9)
        x, grad = draw.normal(size=(40, 256)), draw.normal(size=(40, 128))
        self.write("x.npy", x, "f32"), self.write("g.npy", grad, "f32")
        got = self.write("got.npy", faults.swi_glu_grad(faults.rounded(grad, "bf16"), faults.rounded(x, "bf16")), "f32")
        found = self.diff("--op", "SwiGluGrad", f"out={got}", "x=x.npy", "yGrad=g.npy", verdict="imprecise")
        self.assertIn("Explained: GOT is the golden answer of the inputs rounded to bf16.",
                      [e["sentence"] for e in found["explanations"]])

    def test_rounding_points_of_the_operator(self):
        operator, words = "FusedLinearCrossEntropyLossGrad", ["BT=64", "V=256", "H=80", "dtype=bf16"]
        self.gradus("run", operator, *words, "weightGradOut=got.npy")
        found = self.diff("--op", operator, "weightGradOut=got.npy", *words, verdict="kept")
        self.assertIn("rounding points of this operator (g to the 16-bit type)", found["explanations"][0]["sentence"])

    def test_nothing_explains_a_mistake(self):
        sentences, found = self.explained(faults.plant("sign_row", self.golden("f32"), "f32"), "f32", verdict="wrong")
        self.assertEqual(sentences, [])
        self.assertRegex(found["explanations"][0]["sentence"], "^No rounding point explains it; tried: ")


class Numbers(DiffCase):
    def test_rules_with_their_numbers(self):
        want = np.linspace(1, 2, 1000)
        got = want * (1 + 2.0**-9 * np.where(np.arange(1000) % 3 == 0, -1, 1))
        found = self.diff(self.write("got.npy", got, "f32"), self.write("want.npy", want, "f32"), verdict="imprecise")
        self.assertEqual(found["count"], 1000)
        self.assertFalse(found["rule_a"]["pass"])
        self.assertEqual((found["rule_a"]["rtol"], found["rule_a"]["atol"]), (2.0**-10, 2.0**-16))
        self.assertFalse(found["rule_b"]["pass"])
        self.assertAlmostEqual(found["rule_b"]["mean"], 2.0**-9, places=5)
        self.assertEqual(found["rule_b"]["limit"], 2.0**-13)

    def test_ulps_and_histogram(self):
        want = np.ones(100, np.float32)
        got = want.copy()
        got[3] = np.nextafter(np.float32(1), np.float32(2))
        got[5] = 1 + 4 * 2.0**-23
        found = self.diff(self.save("got.npy", got), self.save("want.npy", want), verdict="kept")
        self.assertEqual(found["differing"], 2)
        self.assertEqual(found["ulps"]["worst"], 4)
        self.assertEqual(found["ulps"]["histogram"], [98, 0, 1, 0, 1])
        self.assertEqual([w["flat_index"] for w in found["worst"]], [5, 3])

    def test_subnormal_grid(self):
        want = np.full(64, 2.0**-24)
        found = self.diff(self.write("got.npy", want * 2, "f16"), self.write("want.npy", want, "f16"), verdict="kept")
        self.assertEqual(found["ulps"]["worst"], 1)

    def test_next_to_the_largest_number(self):
        got, want = np.ones(64, np.float16), np.ones(64, np.float16)
        got[0], want[0] = np.inf, 65504
        self.diff(self.save("got.npy", got), self.save("want.npy", want), verdict="kept")
        want[0] = 60000
        found = self.diff("got.npy", self.save("want.npy", want), verdict="wrong")
        self.assertIn("as f16 does beyond 65504", found["reason"])

    def test_special_values(self):
        want = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0] * 20, np.float32)
        other = want.copy()
        other.view(np.uint32)[0] |= 1  # another NaN
        self.diff(self.save("got.npy", other), self.save("want.npy", want), verdict="equal")
        other[0] = 1
        self.assertIn("not NaN where NaN is expected", self.diff(self.save("got.npy", other), "want.npy", verdict="wrong")["reason"])
        other[0], other[1] = np.nan, 65504
        self.assertIn("not Inf", self.diff(self.save("got.npy", other), "want.npy", verdict="wrong")["reason"])

    def test_integers_are_exact(self):
        want = np.arange(60, dtype=np.int32).reshape(6, 10)
        got = want.copy()
        self.diff(self.save("got.npy", got), self.save("want.npy", want), verdict="equal")
        got[2, 7] += 1
        self.assertIn("element [2,7] is wrong", self.diff(self.save("got.npy", got), "want.npy", verdict="wrong")["reason"])

    def test_own_tolerance(self):
        want = np.linspace(1, 2, 500).astype(np.float32)
        self.save("want.npy", want)
        self.save("got.npy", want * np.float32(1.01))
        self.diff("got.npy", "want.npy", verdict="wrong")
        found = self.diff("got.npy", "want.npy", "--rtol", "0.02", verdict="rounded")
        self.assertEqual(found["own"], {"outside": 0, "rtol": 0.02, "atol": 0})
        self.save("got.npy", np.nextafter(want, np.float32(3)))
        found = self.diff("got.npy", "want.npy", "--atol", "1e-9", verdict="imprecise")
        self.assertEqual(found["own"]["outside"], 500)

    def test_empty_scalar_and_strange_shapes(self):
        for array in (np.zeros((0, 4)), np.float64(3), np.ones((1, 1, 1)), np.ones(7), np.ones((5, 1)), np.ones((3, 0, 2))):
            self.save("a.npy", np.asarray(array, np.float32))
            self.diff("a.npy", "a.npy", verdict="equal")

    def test_top(self):
        draw = np.random.default_rng(0).normal(size=(2, 300)).astype(np.float32)
        self.save("a.npy", draw[0]), self.save("b.npy", draw[1])
        self.assertEqual(len(self.diff("a.npy", "b.npy", "--top", "3", verdict="wrong")["worst"]), 3)
        self.assertEqual(len(self.diff("a.npy", "b.npy", "--top", "0", verdict="wrong")["worst"]), 0)


class Refusals(DiffCase):
    def setUp(self):
        super().setUp()
        self.save("f32.npy", np.ones((4, 6), np.float32))
        self.save("f16.npy", np.ones((4, 6), np.float16))
        self.save("f64.npy", np.ones((4, 6), np.float64))
        self.save("u16.npy", np.ones((4, 6), np.uint16))
        self.save("turned.npy", np.ones((6, 4), np.float32))
        self.save("flat.npy", np.ones(24, np.float32))
        self.save("more.npy", np.ones((5, 6), np.float32))

    def test_files(self):
        self.refused("diff", "f32.npy", words=("1 files, expected GOT and WANT",))
        self.refused("diff", "f32.npy", "f32.npy", "f32.npy", words=("3 files",))
        self.refused("diff", "f32.npy", "none.npy", words=("none.npy",))
        self.refused("diff", "f32.npy", "raw.bin", words=("neither dtype nor shape",))
        self.refused("diff", "f32.npy", "f32.npy:f99", words=("f99",))

    def test_shapes(self):
        self.refused("diff", "turned.npy", "f32.npy", words=("[6,4]", "[4,6]", "transposed"))
        self.refused("diff", "flat.npy", "f32.npy", words=("reshape",))
        self.refused("diff", "more.npy", "f32.npy", words=("not a result of that problem",))

    def test_dtypes(self):
        self.refused("diff", "f32.npy", "f16.npy", words=("GOT is f32, WANT is f16", "as fine as the result"))
        self.refused("diff", "u16.npy", "f16.npy", words=("FILE.npy:bf16",))
        self.refused("diff", "f16.npy", "u16.npy:bf16", words=("in the dtype of GOT",))
        self.gradus("diff", "f16.npy", "f32.npy")
        self.gradus("diff", "f32.npy", "f64.npy")

    def test_operators(self):
        self.refused("diff", "--op", "SwiGluGard", "out=f32.npy", words=("SwiGluGrad",))
        self.refused("diff", "--op", "SwiGluGrad", "x=f32.npy", words=("no result to judge", "out=FILE"))
        self.refused("diff", "--op", "SwiGluGrad", words=("no result to judge", "out=FILE"))
        self.refused("diff", words=("0 files", "GOT and WANT"))
        self.refused("diff", "--op", "SwiGluGrad", "out=f32.npy", "--only", "dx", words=("no output 'dx'", "out"))
        self.refused("diff", "--op", "FusedLinearCrossEntropyLossGrad", "f32.npy", words=("several outputs", "weightGradOut"))
        self.refused("diff", "--op", "SwiGluGrad", "out=f32.npy", "x=[4,8]:f32", words=("[4,6]", "[4,8]"))
        self.refused("diff", "f32.npy", "f32.npy", "--only", "out", words=("--op",))

    def test_numbers(self):
        self.refused("diff", "f32.npy", "f32.npy", "--rtol", "-1")
        self.refused("diff", "f32.npy", "f32.npy", "--promise", "good", words=("elementwise",))

    def test_page_that_cannot_be_written(self):
        self.gradus("diff", "f32.npy", "f32.npy", "--html", "none/page.html", exit=4)
        self.assertIn("none/page.html", self.stderr)


class Words(DiffCase):
    def test_raw_files(self):
        values = np.random.default_rng(3).normal(size=(4, 6))
        faults.stored(values, "bf16").tofile(self.path("got.bin"))
        self.write("want.npy", values, "bf16")
        self.diff("got.bin:bf16[4,6]", "want.npy:bf16", verdict="equal")
        self.diff("got:bf16=want.npy", "want=want.npy:bf16", verdict="equal")

    def test_text(self):
        self.save("a.npy", np.arange(12, dtype=np.float32).reshape(3, 4))
        text = self.gradus("diff", "a.npy", "a.npy", environment={"NO_COLOR": "1"})
        self.assertIn("equal: equal bit by bit", text)
        self.assertIn("CANN's rule (a): 99 % within 2^-16 + 2^-10·|want|", text)
        self.assertIn("CANN's rule (b)", text)


if __name__ == "__main__":
    unittest.main()
