"""Made-up inputs show mistakes: on each of these cases a kernel with one in it is wrong, and the library's own is right."""
import unittest

import formulas
import formulas_products as products
import numpy as np
from test_formulas import FormulaCase


class MadeUp(FormulaCase):
    def shows(self, operator, words, formula, mistakes, dtype="bf16"):
        """The inputs of a case on which each of the mistakes is wrong, and neither the formula nor the library is."""
        inputs, types = self.make(operator, words, dtype)
        outputs = [f"{name}={name}.npy" for name in types]
        self.gradus("run", operator, *words, f"dtype={dtype}", "seed=5", *outputs)
        for output in self.json("diff", "--case", "case", *outputs)["outputs"]:
            self.assertIn(output["verdict"], ("equal", "kept"), output["reason"])
        with np.errstate(all="ignore"):
            self.judged(formula(inputs), types, right=True)
            for mistake in mistakes:
                with self.subTest(operator=operator, words=words, mistake=mistake):
                    found = self.judged(formula(inputs, mistake), types, right=False)
                    self.assertIn("wrong", [output["verdict"] for output in found])
        return inputs


class Masks(MadeUp):
    SHAPES = (["B=1", "H=1", "S=1", "N=64"], ["B=2", "H=2", "S=4", "N=24"], ["B=1", "H=2", "S=24", "N=24"],
              ["B=1", "H=1", "S=4", "N=512"])

    def test_softmax(self):
        for words in self.SHAPES:
            inputs = self.shows("ScaledMaskedSoftmax", words, formulas.softmax, ["mask ignored", "mask one column off"])
            self.assertLess(inputs["mask"].mean(), 0.75)

    def test_an_output_of_zeros(self):
        _, types = self.make("ScaledMaskedSoftmaxBackward", self.SHAPES[0], "f32")
        self.judged({"out": np.zeros((1, 1, 1, 64))}, types, right=False)

    def test_gradient(self):
        for words in self.SHAPES:
            inputs = self.shows("ScaledMaskedSoftmaxBackward", words, formulas.softmax_backward,
                                ["mask ignored", "mask inverted", "mask one column off"])
            self.assertTrue(np.any(inputs["y"][np.broadcast_to(inputs["mask"] != 0, inputs["y"].shape)] != 0))

    def test_of_another_batch(self):
        for operator, formula in (("ScaledMaskedSoftmax", formulas.softmax),
                                  ("ScaledMaskedSoftmaxBackward", formulas.softmax_backward)):
            for mask in ("mask=[3,1,9,20]", "mask=[3,2,9,20]"):
                words = ["B=3", "H=2", "S=9", "N=20", mask]
                inputs = self.shows(operator, words, formula, ["mask of the first batch"])
                for one, other in ((0, 1), (1, 2), (0, 2)):
                    self.assertTrue(np.any(inputs["mask"][one] != inputs["mask"][other]))

    def test_the_last_row_sees_all(self):
        for rows, columns in ((4, 4), (1, 6), (3, 8), (5, 2)):
            self.gradus("run", "ScaledMaskedSoftmax", f"x=[1,1,{rows},{columns}]", f"mask=causal_mask[1,1,{rows},{columns}]",
                        "--inputs", "inputs")
            want = np.arange(columns) > np.arange(rows)[:, None] + columns - rows
            np.testing.assert_array_equal(np.load(self.path("inputs/mask.npy"))[0, 0], want)


class Targets(MadeUp):
    MISTAKES = ["end inclusive", "start not subtracted", "targets not masked", "mask inverted"]

    def test_of_a_part_of_the_vocabulary(self):
        for words in ([], ["BT=4", "V=128", "H=16"], ["BT=33", "V=200", "H=16"],
                      ["BT=20", "V=64", "H=16", "vocabStartIndex=100", "vocabEndIndex=130"]):
            inputs = self.shows("FusedLinearOnlineMaxSum", words, products.online_max_sum, self.MISTAKES)
            start, end = inputs["vocabStartIndex"], inputs["vocabEndIndex"]
            self.assertGreater(start, 0)
            self.assertLessEqual({start - 1, start, end - 1, end}, set(inputs["target"].tolist()))
        words = ["BT=9", "V=32", "H=8", "vocabStartIndex=0"]
        inputs = self.shows("FusedLinearOnlineMaxSum", words, products.online_max_sum, ["end inclusive"])
        self.assertEqual(inputs["vocabEndIndex"], 32)

    def test_of_the_gradient(self):
        self.shows("FusedLinearCrossEntropyLossGrad", ["BT=17", "V=130", "H=16"], products.loss_grad,
                   ["targetMask ignored", "-1 missing", "bits in reverse order"])


class Blocks(MadeUp):
    WORDS = (["T1=40", "T2=96", "N1=4", "N2=2", "D=128", "Dv=128", "selectedBlockSize=16", "selectedBlockCount=3"],
             ["T1=44", "T2=144", "N1=2", "N2=2", "D=128", "Dv=128", "selectedBlockSize=16", "selectedBlockCount=3",
              "actualSeqQLenOptional=[17,44]", "actualSeqKvLenOptional=[48,144]"], [])
    MISTAKES = ["last block of the list missing", "causal ignored", "j < s", "next block"]

    def test_forward(self):
        for words in self.WORDS:
            self.shows("NsaSelectedAttention", words, products.attention, self.MISTAKES)

    def test_gradient(self):
        for words in self.WORDS[1:]:
            self.shows("NsaSelectedAttentionGrad", words, products.attention_grad, self.MISTAKES)

    def test_lists(self):
        for words in self.WORDS:
            inputs, _ = self.make("NsaSelectedAttention", words, "bf16")
            lists, size = inputs["topkIndices"], inputs["selectedBlockSize"]
            self.assertGreater(lists.shape[0], 2 * size)
            self.assertIn(-1, lists)
            seen = np.zeros(lists.shape[2], int)
            for q0, q1, k0, k1 in products.batches(inputs):
                for row in range(q0, q1):
                    for one in lists[row]:
                        blocks = [block for block in one if block >= 0]
                        self.assertEqual(len(set(blocks)), len(blocks), "a block twice")
                        self.assertLess(max(blocks), (k1 - k0) // size)
                        seen += (one >= 0) & (one * size <= row - q0)
            self.assertGreater(seen.min(), lists.shape[0] // 4, "a place of the list that hardly matters")


if __name__ == "__main__":
    unittest.main()
