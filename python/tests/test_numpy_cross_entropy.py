"""The LM head with its cross entropy, over one shard and several, against f64 formulas."""

import unittest

import formulas
import gradus
import numpy as np
from bounds import F32, F64, HALVES, check


def problem(kind, random, tokens, words, hidden, dtype="i8"):
    scale = hidden**-0.25
    x, w = kind.normals(random, tokens, hidden, scale=scale), kind.normals(random, words, hidden, scale=scale)
    return x, w, random.integers(0, words, tokens).astype(dtype)


def statistics(kind):
    return F64 if kind.golden else F32


class CrossEntropy(unittest.TestCase):
    def expect_shard(self, kind, x, w, target, start, end, return_logits):
        got = gradus.fused_linear_online_max_sum(x, w, target, start, end, return_logits=return_logits)
        want, stats = formulas.online_max_sum(kind, x, w, target.astype("i8"), start, end), statistics(kind)
        for name in ("max", "sum", "predicted"):
            check(stats, getattr(got, name), getattr(want, name))
        bits = np.unpackbits(got.target_mask, bitorder="little")
        np.testing.assert_array_equal(bits[:len(x)], want.masked)
        self.assertFalse(bits[len(x):].any())
        np.testing.assert_array_equal(got.masked_target, want.masked_target)
        if return_logits:
            check(kind, got.logits, want.logits)
        else:
            self.assertIsNone(got.logits)
        return got, want

    def test_one_shard(self):
        random = np.random.default_rng(1)
        for kind in HALVES:
            for tokens, words, hidden in ((1, 1, 1), (9, 40, 33), (70, 200, 64)):
                for dtype in ("i4", "i8", "u1"):
                    with self.subTest(kind=kind.name, tokens=tokens, words=words, dtype=dtype), kind.options():
                        self.expect_all(kind, random, *problem(kind, random, tokens, words, hidden, dtype))

    def test_both_at_once(self):
        """Where p is exact in half precision: its logits lie 0 or 2 below the largest."""
        random = np.random.default_rng(2)
        for kind in HALVES:
            with self.subTest(kind=kind.name), kind.options():
                x = kind.make(np.ones((12, 2)))
                w = kind.make(np.stack([np.arange(40) % 2 * 2, np.zeros(40)], 1))
                target, g = random.integers(-1, 42, 12), statistics(kind).make(random.uniform(0.5, 1.5, 12))
                s = [np.empty(12, g.dtype) for _ in range(3)]
                dx, dw = np.empty_like(x), np.empty_like(w)
                gradus.call("LinearCrossEntropyWithGrad", grad=g, input=x, weight=w, target=target, logitsMaxOut=s[0],
                            sumExpLogitsOut=s[1], predictedLogitsOut=s[2], inputGradOut=dx, weightGradOut=dw)
                want = formulas.online_max_sum(kind, x, w, target, 0, 40)
                for got, name in zip(s, ("max", "sum", "predicted")):
                    check(statistics(kind), got, getattr(want, name))
                want_dx, want_dw = formulas.loss_grad(kind, g, x, w, want, s[0], s[1], None)
                check(kind, dx, want_dx)
                check(kind, dw, want_dw)

    def expect_all(self, kind, random, x, w, target):
        stats = statistics(kind)
        s, want = self.expect_shard(kind, x, w, target, 0, len(w), True)
        self.assertEqual(s.masked_target.dtype, target.dtype if target.dtype.itemsize > 1 else np.int64)
        loss, softmax = gradus.fused_cross_entropy_loss_with_max_sum(s.max, s.sum, s.predicted, logits=s.logits)
        check(stats, loss, formulas.loss(stats, s.sum, s.predicted))
        check(stats, softmax, formulas.loss_softmax(stats, s.logits, s.max, s.sum))
        plain, none = gradus.fused_cross_entropy_loss_with_max_sum(s.max, s.sum, s.predicted)
        self.assertIsNone(none)
        np.testing.assert_array_equal(plain, loss)
        g = stats.make(random.uniform(0.5, 1.5, len(x)))
        for given in ({"max": s.max, "sum": s.sum}, {"softmax": softmax}):
            dx, dw = gradus.fused_linear_cross_entropy_loss_grad(g, x, w, s.target_mask, s.masked_target, **given)
            want_dx, want_dw = formulas.loss_grad(kind, g, x, w, want, s.max, s.sum, given.get("softmax"))
            check(kind, dx, want_dx)
            check(kind, dw, want_dw)

    def test_shards_give_the_whole(self):
        random = np.random.default_rng(2)
        for kind in HALVES:
            x, w, target = problem(kind, random, 21, 90, 32)
            with self.subTest(kind=kind.name), kind.options():
                parts = [self.expect_shard(kind, x, w[a:b], target, a, b, False)[0] for a, b in ((0, 50), (50, 90))]
                top = np.maximum(parts[0].max, parts[1].max)
                total = sum(p.sum * np.exp(p.max - top) for p in parts)
                masked = [np.unpackbits(p.target_mask, bitorder="little")[:21].astype(bool) for p in parts]
                predicted = sum(np.where(m, 0, p.predicted + p.max - top) for p, m in zip(parts, masked))
                loss, _ = gradus.fused_cross_entropy_loss_with_max_sum(top, total, predicted)
                logits = formulas.f8(x) @ formulas.f8(w).T
                want = np.log(np.exp(logits).sum(1)) - logits[np.arange(21), target]
                # each term errs as its sum does: products over H = 32, exponentials over V = 90
                magnitude = 4 + (np.abs(formulas.f8(x)) @ np.abs(formulas.f8(w)).T).max(1)
                bound = (kind.sum(32) + kind.sum(90)) * magnitude * 4
                self.assertTrue((np.abs(loss - want) <= bound).all(), np.abs(loss - want) / bound)

    def test_known_answer(self):
        s = gradus.fused_linear_online_max_sum(np.ones((3, 4), "f2"), np.ones((5, 4), "f2"), np.array([1, 1, 1]), 0, 2)
        self.assertEqual([list(s.max), list(s.sum), list(s.predicted), list(s.target_mask), list(s.masked_target)],
                         [[4] * 3, [5] * 3, [0] * 3, [0], [1] * 3])
        half = np.float32([0.5, 1])
        logits = np.float32([[1, .5], [.5, 1]])
        loss, softmax = gradus.fused_cross_entropy_loss_with_max_sum(half, half, half, logits=logits)
        np.testing.assert_allclose(loss, [-1.193147, -1], rtol=1e-6)
        np.testing.assert_allclose(softmax, [[3.297443, 2], [0.606531, 1]], rtol=1e-6)

    def test_a_bool_mask_says_the_same(self):
        random = np.random.default_rng(3)
        kind = HALVES[0]
        x, w, target = problem(kind, random, 11, 140, 16)
        s = gradus.fused_linear_online_max_sum(x, w, target, 0, 70)
        mask, g = target >= 70, np.ones(11, "f4")
        bits, bools = (gradus.fused_linear_cross_entropy_loss_grad(g, x, w, m, s.masked_target, max=s.max, sum=s.sum)
                       for m in (s.target_mask, mask))
        np.testing.assert_array_equal(bits[0], bools[0])
        np.testing.assert_array_equal(bits[1], bools[1])


if __name__ == "__main__":
    unittest.main()
