"""gradus diff where ranges end: subnormal numbers, sums that stand still, mistakes no larger than rounding."""
import unittest

import faults
import formulas
import formulas_products as products
import numpy as np
from test_formulas import FormulaCase

SOFTMAX = ["B=2", "H=2", "S=9", "N=200", "mask=randbool[2,2,9,200],p=0.5"]
VOCABULARY = ["BT=16", "V=1000", "H=64"]
LEAST = {"f32": 2.0**-126, "bf16": 2.0**-126, "f16": 2.0**-14}


class Ranges(FormulaCase):
    def verdicts(self, outputs, dtypes):
        """Verdict and sentence of each output, whatever they are."""
        words = self.write(outputs, dtypes)
        try:
            found = self.json("diff", "--case", "case", *words)
        except AssertionError:
            found = self.json("diff", "--case", "case", *words, exit=1)
        return [(output["verdict"], output["reason"]) for output in found["outputs"]]

    def wrong(self, outputs, types, words="", at=0):
        verdict, reason = self.verdicts(outputs, types)[at]
        self.assertEqual(verdict, "wrong", reason)
        self.assertRegex(reason, words)


class RightAnswers(Ranges):
    def test_subnormal_numbers_flushed(self):
        for operator, formula, words in (("SwiGlu", formulas.swi_glu, ["x=[3,4100]"]),
                                         ("ScaledMaskedSoftmaxBackward", formulas.softmax_backward, [*SOFTMAX, "scale=8"]),
                                         ("ExpSegsum", formulas.exp_segsum, ["self=[1,1,260]"])):
            for dtype in ("f16", "bf16"):
                with self.subTest(operator=operator, dtype=dtype):
                    inputs, types = self.make(operator, words, dtype)
                    outputs = formula(inputs)
                    exact = {n: faults.rounded(x, dtype) for n, x in outputs.items()}
                    flushed = {n: np.where(np.abs(x) < LEAST[dtype], 0, x) for n, x in exact.items()}
                    (verdict, reason), = self.verdicts(flushed, types)
                    if all(np.array_equal(flushed[n], exact[n]) for n in exact):
                        continue
                    self.assertEqual(verdict, "rounded", reason)
                    self.assertIn("flushed to 0", reason)
                    # some of them, or of a tensor that has nothing else, are a mistake
                    (name, x), = exact.items()
                    small = np.flatnonzero((np.abs(x) < LEAST[dtype]) & (np.abs(x) > LEAST[dtype] / 4))
                    some = x.copy()
                    some.flat[small[: len(small) // 2]] = 0
                    if len(small) > 1:
                        self.assertEqual(self.verdicts({name: some}, types)[0][0], "wrong")

    def test_factors_that_are_subnormal(self):
        for dtype in ("f32", "f16", "bf16"):
            with self.subTest(dtype):
                inputs, types = self.make("ScaledMaskedSoftmaxBackward", [*SOFTMAX, "scale=8"], dtype)
                (verdict, reason), = self.verdicts(
                    formulas.softmax_backward(inputs, k=formulas.Arithmetic(factors=dtype)), types)
                self.assertIn(verdict, ("kept", "rounded"), reason)

    def test_overflow_next_to_the_largest_number(self):
        inputs, types = self.make("ExpSegsum", ["self=randn[1,1,8],std=0"], "f16")
        inputs["self"][:] = [0, 11.0877, 0, 0, 0, 0, 0, 0]
        np.save(self.path("case/self.npy"), inputs["self"].astype(np.float16))
        inputs["self"] = inputs["self"].astype(np.float16).astype(float)
        outputs = formulas.exp_segsum(inputs)
        self.assertTrue(6e4 < outputs["out"].max() < 65520)
        over = {"out": np.where(outputs["out"] > 6e4, np.inf, outputs["out"])}
        (verdict, reason), = self.verdicts(over, types)
        self.assertIn(verdict, ("kept", "rounded"), reason)
        (verdict, reason), = self.verdicts({"out": np.where(outputs["out"] > 6e4, -np.inf, outputs["out"])}, types)
        self.assertEqual(verdict, "wrong", reason)

    def test_sums_that_stand_still(self):
        """In bf16 1 + 1 + ... ends at 256: as if terms were missing, and what is divided by it has a factor."""
        words = ["B=1", "H=1", "S=3", "mask=[1,1,3,{0}]", "N={0}", "scale=0.25"]
        for dtype, columns in (("bf16", 257), ("bf16", 4000), ("f16", 4000)):
            with self.subTest(dtype=dtype, columns=columns):
                inputs, types = self.make("ScaledMaskedSoftmax", [w.format(columns) for w in words], dtype)
                inputs["mask"][:] = False
                inputs["mask"][0, 0, 1] = True
                np.save(self.path("case/mask.npy"), inputs["mask"])
                k = formulas.Arithmetic(factors=dtype, sums=dtype)
                (verdict, reason), = self.verdicts(formulas.softmax(inputs, k=k), types)
                self.assertEqual(verdict, "imprecise", reason)

    def test_sums_of_the_vocabulary_in_16_bits(self):
        for dtype, seed in (("bf16", 1), ("bf16", 2), ("f16", 3)):
            inputs, types = self.make("FusedLinearOnlineMaxSum", VOCABULARY, dtype, seed)
            outputs = products.online_max_sum(inputs)
            terms = np.exp(inputs["input"] @ inputs["weight"].T - outputs["logitsMaxLocalOut"][:, None])
            for order in (slice(None), slice(None, None, -1)):
                with self.subTest(dtype=dtype, seed=seed, order=order):
                    outputs["sumExpLogitsLocalOut"] = faults.accumulated(terms.T[order], dtype)
                    verdict, reason = self.verdicts(outputs, types)[1]
                    self.assertEqual(verdict, "imprecise", reason)


class Mistakes(Ranges):
    def test_few_elements_beside_right_ones(self):
        """The last element of a causal mask is seen by one row: what is missing in its sum is wrong there alone."""
        for seed in range(3):
            with self.subTest(seed=seed):
                inputs, types = self.make("ScaledMaskedSoftmaxBackward",
                                          ["B=2", "H=2", "S=16", "N=16", "mask=[2,2,16,16]", "scale=0.125"], "f32", seed)
                t = inputs["gradOutput"] * inputs["y"]
                s = t[..., :-1].sum(-1, keepdims=True)
                out = np.where(inputs["mask"], 0, (t - s * inputs["y"]) * 0.125)
                self.wrong({"out": out}, types, "the last 1 of 16 are missing|row")

    def test_something_where_nothing_is_added_up(self):
        """However small it is: in f16 an intermediate that underflows leaves as much, but not of a masked element."""
        inputs, types = self.make("ScaledMaskedSoftmaxBackward", [*SOFTMAX, "scale=0.3"], "f16")
        right, masked = formulas.softmax_backward(inputs)["out"], np.argwhere(inputs["mask"])
        for places in (masked[3:4], masked):
            for value in (1.2e-7, 1e-5):
                with self.subTest(places=len(places), value=value):
                    out = right.copy()
                    out[tuple(places.T)] = value
                    self.wrong({"out": out}, types, "should be zero and")

    def test_one_element_within_what_rounding_may_leave(self):
        inputs, types = self.make("FusedLinearCrossEntropyLossGrad", ["BT=32", "V=256", "H=80"], "bf16")
        outputs = products.loss_grad(inputs)
        grad = outputs["inputGradOut"]
        grad[7, 5] += 0.02 * np.abs(grad).max()
        self.wrong(outputs, types, r"element \[7,5\]")

    def test_part_of_the_vocabulary(self):
        """Sums in 16 bits go the same way; they are not that answer."""
        for dtype, seed, begin, end, words in (("bf16", 5, 984, 1000, "the last 16 of"), ("bf16", 6, 256, 272, "256 to 271 of"),
                                               ("f16", 7, 984, 1000, "the last 16 of"), ("f16", 5, 256, 272, "256 to 271 of")):
            with self.subTest(dtype=dtype, begin=begin):
                inputs, types = self.make("FusedLinearOnlineMaxSum", VOCABULARY, dtype, seed)
                logits = inputs["input"] @ inputs["weight"].T
                logits[:, begin:end] = -np.inf
                outputs = products.online_max_sum(inputs)
                outputs["sumExpLogitsLocalOut"] = np.exp(logits - logits.max(1, keepdims=True)).sum(1)
                self.wrong(outputs, types, words + " 1000 are missing", at=1)

    def test_block_in_the_middle_of_a_long_sum(self):
        for dtype, begin, end in (("f32", 16, 32), ("bf16", 16, 32), ("bf16", 64, 128)):
            with self.subTest(dtype=dtype, begin=begin):
                inputs, types = self.make("ScaledMaskedSoftmaxBackward", ["B=2", "H=1", "S=8", "N=1000", "scale=1",
                                                                          "mask=randbool[2,1,8,1000],p=0.2"], dtype, 3)
                t = inputs["gradOutput"] * inputs["y"]
                s = t.sum(-1, keepdims=True) - t[..., begin:end].sum(-1, keepdims=True)
                out = np.where(inputs["mask"], 0, t - s * inputs["y"])
                self.wrong({"out": out}, types, f"{begin} to {end - 1} of 1000 are missing")

    def test_one_element_is_no_formula(self):
        """Another formula would have changed the others, too."""
        for dtype in ("f32", "bf16"):
            inputs, types = self.make("ScaledMaskedSoftmaxBackward", ["B=1", "H=2", "S=24", "N=24", "scale=0.125"], dtype, 3)
            right = formulas.softmax_backward(inputs)["out"]
            at = tuple(np.argwhere(np.abs(right) > np.abs(right).max() / 8)[3])
            for factor, words in ((0, "is zero"), (-1, "has the opposite sign")):
                with self.subTest(dtype=dtype, factor=factor):
                    out = right.copy()
                    out[at] *= factor
                    self.wrong({"out": out}, types, r"^element \[[\d,]+\] " + words)

    def test_statistics_of_the_row_before(self):
        inputs, types = self.make("FusedLinearCrossEntropyLossGrad", ["BT=32", "V=256", "H=80"], "bf16")
        shifted = {**inputs, "sumExpLogitsOptional": np.roll(inputs["sumExpLogitsOptional"], 1)}
        self.wrong(products.loss_grad(shifted), types, "sumExpLogits of the token before")

    def test_sums_of_the_row_before(self):
        inputs, types = self.make("ScaledMaskedSoftmax",
                                  ["B=1", "H=1", "S=3", "N=4000", "mask=randbool[1,1,3,4000],p=0.3", "scale=0.25"], "f32")
        z = np.where(inputs["mask"], -10000, inputs["x"] * 0.25)
        e = np.exp(z - z.max(-1, keepdims=True))
        self.wrong({"y": e / np.roll(e.sum(-1, keepdims=True), 1, -2)}, types, "factor of its own in every row")

    def test_no_larger_than_rounding(self):
        """Rows of one large element: their sums are 1 and a little, less than bf16 leaves of the exponents."""
        inputs, types = self.make("ScaledMaskedSoftmax", [*SOFTMAX, "scale=8"], "bf16")
        z = np.where(inputs["mask"], -10000, faults.rounded(inputs["x"] * 8, "bf16"))
        e = faults.rounded(np.exp(faults.rounded(z - z.max(-1, keepdims=True), "bf16")), "bf16")
        self.wrong({"y": e}, types, "without the division by the sum")


class Numbers(Ranges):
    """A number of the formula that is another: it is searched for."""

    def test_scale(self):
        for dtype in ("f32", "f16", "bf16"):
            for factor in (1.05, 0.95, 0.7, 1.5):
                with self.subTest(dtype=dtype, factor=factor):
                    inputs, types = self.make("ScaledMaskedSoftmax", [*SOFTMAX, "scale=0.5"], dtype)
                    other = {**inputs, "scale": inputs["scale"] * factor}
                    self.wrong(formulas.softmax(other), types, f"with the scale times {factor:g}")

    def test_added_to_the_sum(self):
        """Of 16 bits, where it is larger than rounding."""
        for dtype, number in (("f32", 0.1), ("f32", -0.01), ("f16", 5), ("bf16", 20)):
            with self.subTest(dtype=dtype, number=number):
                inputs, types = self.make("ScaledMaskedSoftmax", [*SOFTMAX, "scale=0.5"], dtype)
                z = np.where(inputs["mask"], -10000, inputs["x"] * 0.5)
                e = np.exp(z - z.max(-1, keepdims=True))
                self.wrong({"y": e / (e.sum(-1, keepdims=True) + number)}, types, "added to the sum")

    def test_lost_lane(self):
        for dtype, lanes, lane in (("bf16", 8, 7), ("bf16", 16, 15), ("f16", 4, 0)):
            with self.subTest(dtype=dtype, lanes=lanes):
                inputs, types = self.make("FusedLinearOnlineMaxSum", VOCABULARY, dtype, 3)
                outputs = products.online_max_sum(inputs)
                terms = np.exp(inputs["input"] @ inputs["weight"].T - outputs["logitsMaxLocalOut"][:, None])
                terms[:, lane::lanes] = 0
                outputs["sumExpLogitsLocalOut"] = terms.sum(1)
                self.wrong(outputs, types, f"one in {lanes} of 1000, from {lane} on, are missing", at=1)

    def test_one_number_added_to_all(self):
        """Less than 16-bit factors leave, but the same everywhere."""
        inputs, types = self.make("FusedLinearOnlineMaxSum", VOCABULARY, "bf16", 3)
        outputs = products.online_max_sum(inputs)
        outputs["sumExpLogitsLocalOut"] = outputs["sumExpLogitsLocalOut"] + 0.125
        self.wrong(outputs, types, "the expected plus 0.125", at=1)
        want = np.arange(1, 257, dtype=np.float32).reshape(8, 32)
        np.save(self.path("want.npy"), want)
        np.save(self.path("got.npy"), want + np.float32(2**-9))
        self.assertRegex(self.json("diff", "got.npy", "want.npy", exit=1)["outputs"][0]["reason"], "plus 0.001953")

    def test_golden_makes_them(self):
        """By the words of the sentence."""
        inputs, _ = self.make("ScaledMaskedSoftmax", ["B=1", "H=1", "S=4", "N=32", "scale=0.5"], "f32")
        z = np.where(inputs["mask"], -10000, inputs["x"] * 0.5)
        e = np.exp(z - z.max(-1, keepdims=True))
        words = ["run", "ScaledMaskedSoftmax", "x=case/x.npy", "mask=case/mask.npy", "scale=0.5", "fixTriuMask=false",
                 "--precision", "golden", "y=y.npy"]
        lane = np.where(np.arange(32) % 16 == 15, 0, e).sum(-1, keepdims=True)
        for mistake, total in (("with -0.25 added to the sum", e.sum(-1, keepdims=True) - 0.25),
                               ("without a part of the sum [15,32) by 16", lane),
                               ("with a part of the sum twice [0,32)", 2 * e.sum(-1, keepdims=True))):
            with self.subTest(mistake):
                self.gradus(*words, environment={"GRADUS_MISTAKE": mistake})
                np.testing.assert_allclose(np.load(self.path("y.npy")), e / total, rtol=1e-6)
        for mistake in ("with x added to the sum", "with  added to the sum", "with nan added to the sum",
                        "without a part of the sum [0,32) by 0", "with 1 added to the summ"):
            self.assertIn("mistake", self.refused(*words, environment={"GRADUS_MISTAKE": mistake}))


if __name__ == "__main__":
    unittest.main()
