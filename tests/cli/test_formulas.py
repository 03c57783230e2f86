"""gradus diff against kernels that are wrong in their formula, and against right ones that round elsewhere.

Every kernel is NumPy (formulas.py), on a case that the tool made up. By default each operator meets every sixth of its
mistakes in one dtype; GRADUS_TEST_LONG=1 tries all of them in all dtypes.
"""
import json
import os
import unittest
import zlib

import faults
import formulas
import formulas_products as products
import numpy as np
from common import MISMATCH, RIGHT, Case

LONG = "GRADUS_TEST_LONG" in os.environ
FLOATS, HALVES = ("f32", "f16", "bf16"), ("f16", "bf16")
NSA = ["T1=80", "T2=128", "N1=4", "N2=2", "D=128", "Dv=128", "selectedBlockSize=16", "selectedBlockCount=3",
       "actualSeqQLenOptional=[64,80]", "actualSeqKvLenOptional=[64,128]"]

# operator: formula, mistakes, words of the case, dtypes.
OPERATORS = {
    "SwiGlu": (formulas.swi_glu, formulas.SWI_GLU, ["x=[24,192]"], FLOATS),
    "SwiGluGrad": (formulas.swi_glu_grad, formulas.SWI_GLU_GRAD, ["x=[24,192]"], FLOATS),
    "ScaledMaskedSoftmax": (formulas.softmax, formulas.SOFTMAX, ["B=2", "H=2", "S=96", "N=96", "scale=0.5"], FLOATS),
    "ScaledMaskedSoftmaxBackward": (formulas.softmax_backward, formulas.SOFTMAX_BACKWARD,
                                    ["B=2", "H=2", "S=96", "N=96", "scale=0.5"], FLOATS),
    "ExpSegsum": (formulas.exp_segsum, formulas.EXP_SEGSUM, ["self=[2,3,48]"], FLOATS),
    "ExpSegsumBackward": (formulas.exp_segsum_backward, formulas.EXP_SEGSUM_BACKWARD, ["gradOutput=[2,3,64,64]"], FLOATS),
    "NsaSelectedAttention": (products.attention, products.ATTENTION, NSA, HALVES),
    "NsaSelectedAttentionGrad": (products.attention_grad, products.ATTENTION_GRAD, NSA, HALVES),
    "FusedLinearOnlineMaxSum": (products.online_max_sum, products.ONLINE_MAX_SUM,
                                ["BT=48", "V=256", "H=80", "target=index,low=96,high=134", "vocabStartIndex=100",
                                 "vocabEndIndex=130"], HALVES),
    "FusedCrossEntropyLossWithMaxSum": (products.loss, products.LOSS, ["BT=48", "V=160"], FLOATS),
    "FusedLinearCrossEntropyLossGrad": (products.loss_grad, products.LOSS_GRAD, ["BT=64", "V=256", "H=80"], HALVES),
}

# What the sentence must say of some mistakes; of all others it must name a place.
SENTENCES = {
    ("SwiGlu", "gelu for silu"): r"with sigmoid\(1\.70\d*\*A\)",
    ("SwiGluGrad", "s(1-s)A missing"): r"without the s\*\(1 - s\)\*A term",
    ("SwiGluGrad", "wrong parenthesis"): r"wrong parenthesis",
    ("SwiGluGrad", "halves of x exchanged"): r"A and B exchanged",
    ("ScaledMaskedSoftmax", "mask ignored"): r"with the mask ignored",
    ("ScaledMaskedSoftmax", "mask one column off"): r"mask one column to the right",
    ("ScaledMaskedSoftmax", "scale times 1.2"): r"with the scale times 1\.2",
    ("ScaledMaskedSoftmax", "every 16th of the sum missing"): r"one in 16 of 96, from 15 on, are missing",
    ("ScaledMaskedSoftmax", "1 added to the sum"): r"with (1|0\.9\d*|1\.0\d*) added to the sum|row",
    ("ScaledMaskedSoftmaxBackward", "every 16th of the sum missing"): r"one in 16 of 96, from 15 on, are missing",
    ("ScaledMaskedSoftmaxBackward", "sum missing"): r"without the sum\(t\)\*y term",
    ("ScaledMaskedSoftmaxBackward", "last 16 of the sum missing"): r"the last 16 of 96 are missing",
    ("ScaledMaskedSoftmaxBackward", "block of 16 of the sum missing"): r"32 to 47 of 96 are missing",
    ("ScaledMaskedSoftmaxBackward", "block of 16 of the sum twice"): r"48 to 63 of 96 are counted twice",
    ("ScaledMaskedSoftmaxBackward", "small ones negated"): r"have the opposite sign",
    ("ScaledMaskedSoftmaxBackward", "scale missing"): r"without the scale",
    ("ExpSegsum", "exp2 for exp"): r"of self times 0\.69",
    ("ExpSegsum", "half flushed to zero"): r"are zero",
    ("ExpSegsum", "transposed"): r"transposed|should be zero",
    ("ExpSegsumBackward", "i > k"): r"i > k",
    ("ExpSegsumBackward", "last 16 rows missing"): r"the last 16 of 64 are missing",
    ("ExpSegsumBackward", "last 16 rows twice"): r"the last 16 of 64 are counted twice",
    ("NsaSelectedAttention", "causal ignored"): r"causal mask ignored",
    ("NsaSelectedAttention", "first block of the list twice"): r"the first 16 of 48 are counted twice",
    ("NsaSelectedAttention", "scale times 1.2"): r"with the scale times 1\.(2|19|20)\d*",
    ("NsaSelectedAttentionGrad", "scale times 1.2"): r"with the scale times 1\.(2|19|20)\d*",
    ("NsaSelectedAttentionGrad", "delta missing"): r"without delta",
    ("NsaSelectedAttentionGrad", "last 16 of D missing"): r"the last 16 of 128 are missing",
    ("NsaSelectedAttentionGrad", "dK negated"): r"opposite sign",
    ("FusedLinearOnlineMaxSum", "last 16 of the vocabulary missing"): r"the last 16 of 256 are missing",
    ("FusedLinearOnlineMaxSum", "16 words twice"): r"the first 16 of 256 are counted twice",
    ("FusedLinearOnlineMaxSum", "block of 64 missing in the sum alone"): r"128 to 191 of 256 are missing",
    ("FusedLinearOnlineMaxSum", "every 16th missing in the sum alone"): r"one in 16 of 256, from 15 on, are missing",
    ("FusedLinearOnlineMaxSum", "0.1 added to the sum"): r"the expected plus 0\.1",
    ("FusedLinearOnlineMaxSum", "bits in reverse order"): r"bits in reverse order",
    ("FusedCrossEntropyLossWithMaxSum", "log2 for log"): r"with log\(sumExpLogits\) times 1\.44",
    ("FusedCrossEntropyLossWithMaxSum", "log missing"): r"without log",
    ("FusedLinearCrossEntropyLossGrad", "-1 missing"): r"without the target's -1",
    ("FusedLinearCrossEntropyLossGrad", "label smoothing"): r"with -0\.9 at the target",
    ("FusedLinearCrossEntropyLossGrad", "bits in reverse order"): r"bits of targetMask in reverse order",
    ("FusedLinearCrossEntropyLossGrad", "last 16 of the vocabulary missing"): r"the last 16 of 256 are missing",
    ("FusedLinearCrossEntropyLossGrad", "block of 16 of the vocabulary twice"): r"32 to 47 of 256 are counted twice",
    ("FusedLinearCrossEntropyLossGrad", "last 16 tokens missing"): r"the last 16 of 64 are missing",
    ("FusedLinearCrossEntropyLossGrad", "8 tokens twice"): r"24 to 31 of 64 are counted twice",
}
PLACE = r"element|row|column|everything|tensor|all |formula gives"


class FormulaCase(Case):
    def make(self, operator, words, dtype, seed=5):
        """The case in directory "case", its inputs as f64, and the dtypes of its outputs."""
        self.gradus("run", operator, *words, f"dtype={dtype}", f"seed={seed}", "--case", "case")
        with open(self.path("case/case.json"), encoding="utf-8") as file:
            case = json.load(file)
        inputs = dict(case["attributes"])
        for name, tensor in case["inputs"].items():
            array = np.load(self.path("case/" + tensor["file"]))
            inputs[name] = array if tensor["dtype"] in ("bool", "int32", "int64", "uint8") else faults.loaded(array, tensor["dtype"])
        return inputs, {name: tensor["dtype"] for name, tensor in case["outputs"].items()}

    def write(self, outputs, dtypes, how=np.rint):
        """The outputs as files, as words for diff."""
        words = []
        for name, values in outputs.items():
            dtype = dtypes[name]
            exact = dtype in ("int32", "int64", "uint8")
            np.save(self.path(name + ".npy"), values.astype(dtype) if exact else faults.stored(values, dtype, how))
            words.append(f"{name}{':bf16' if dtype == 'bf16' else ''}={name}.npy")
        return words

    def judged(self, outputs, dtypes, right, how=np.rint):
        report = self.json("diff", "--case", "case", *self.write(outputs, dtypes, how), exit=RIGHT if right else MISMATCH)
        self.assertEqual(report["pass"], right)
        return report["outputs"]


def own_dtypes(operator, dtypes):
    return dtypes if LONG else [dtypes[zlib.crc32(operator.encode()) % len(dtypes)]]


class Mistakes(FormulaCase):
    def check(self, operator):
        formula, mistakes, words, dtypes = OPERATORS[operator]
        self.assertGreaterEqual(len(mistakes), 12)
        for dtype in own_dtypes(operator, dtypes):
            inputs, types = self.make(operator, words, dtype)
            for mistake in mistakes if LONG else mistakes[1::6]:
                with self.subTest(operator=operator, dtype=dtype, mistake=mistake):
                    with np.errstate(all="ignore"):
                        outputs = formula(inputs, mistake)
                    found = self.judged(outputs, types, right=False)
                    wrong = [o for o in found if not o["pass"]]
                    self.assertEqual({o["verdict"] for o in wrong}, {"wrong"}, [o["reason"] for o in wrong])
                    reasons = " | ".join(o["reason"] for o in wrong)
                    self.assertRegex(reasons, SENTENCES.get((operator, mistake), PLACE))


def mistakes_test(operator):
    return lambda self: self.check(operator)


for _operator in OPERATORS:
    setattr(Mistakes, "test_" + _operator, mistakes_test(_operator))


class RightAnswers(FormulaCase):
    """Kernels that round elsewhere. A verdict of theirs that fails must be imprecise, where sums are carried in 16 bits."""

    def each(self, judge):
        """judge(operator, dtype, outputs as a function of an arithmetic, their dtypes) for each operator."""
        for operator, (formula, _, words, dtypes) in list(OPERATORS.items())[::1 if LONG else 5]:
            for dtype in own_dtypes(operator, dtypes):
                inputs, types = self.make(operator, words, dtype)
                with self.subTest(operator=operator, dtype=dtype), np.errstate(all="ignore"):
                    judge(operator, dtype, lambda k=formulas.PLAIN: formula(inputs, k=k), types)

    def test_f64_rounded_once(self):
        def judge(operator, dtype, answer, types):
            for output in self.judged(answer(), types, right=True):
                self.assertIn(output["verdict"], ("equal", "kept"), output["reason"])
        self.each(judge)

    def test_truncated(self):
        self.each(lambda operator, dtype, answer, types: self.judged(answer(), types, right=True, how=np.trunc))

    def test_factors_in_16_bits(self):
        def judge(operator, dtype, answer, types):
            if dtype != "f32":
                self.judged(answer(formulas.Arithmetic(factors=dtype)), types, right=True)
        self.each(judge)

    def test_products_in_16_bits(self):
        """As PyTorch's eager operators do: every result of one is rounded, and the terms of a sum are results."""
        def judge(operator, dtype, answer, types):
            if dtype != "f32":
                self.judged(answer(formulas.Arithmetic(factors=dtype, products=dtype, uses=dtype)), types, right=True)
        self.each(judge)

    def test_sums_in_f32(self):
        self.each(lambda operator, dtype, answer, types: self.judged(answer(formulas.Arithmetic(sums="f32")), types, right=True))

    def test_sums_truncated_to_f32(self):
        """As matrix units add up."""
        self.each(lambda operator, dtype, answer, types: self.judged(
            answer(formulas.Arithmetic(sums="f32", how=np.trunc)), types, right=True))

    def sums_in_16_bits(self, **options):
        def judge(operator, dtype, answer, types):
            if dtype == "f32" or operator.startswith(("SwiGlu", "FusedCross")):  # no sums
                return
            words = self.write(answer(formulas.Arithmetic(factors=dtype, sums=dtype, **options)), types)
            try:
                report = self.json("diff", "--case", "case", *words)
            except AssertionError:
                report = self.json("diff", "--case", "case", *words, exit=MISMATCH)
            for output in report["outputs"]:
                self.assertNotEqual(output["verdict"], "wrong", output["reason"])
        self.each(judge)

    def test_sums_in_16_bits(self):
        self.sums_in_16_bits()

    def test_sums_in_lanes_of_16_bits(self):
        self.sums_in_16_bits(lanes=4)

    def test_sums_in_16_bits_from_the_last_term_on(self):
        self.sums_in_16_bits(last_first=True)

    def test_sums_truncated_to_16_bits(self):
        self.sums_in_16_bits(how=np.trunc)


if __name__ == "__main__":
    unittest.main()
