"""nsa_selected_attention and its gradient, against f64 formulas."""

import unittest
from dataclasses import replace

import gradus
import numpy as np
from bounds import F32, F64, HALVES, check
from formulas_attention import Problem, forward, gradient


def problem(kind, random, lengths_q=(9,), lengths_kv=(64,), key_heads=2, group=2, depth=32, value_depth=16, size=16,
            count=3, causal=True):
    """Blocks in any order, some listed twice, a few outside of the batch."""
    rows, keys = sum(lengths_q), sum(lengths_kv)
    blocks = min(lengths_kv) // size
    topk = random.integers(-1, blocks + 1, (rows, key_heads, count)).astype("i4")
    topk[..., -1] = 0
    return Problem(kind, kind.normals(random, rows, key_heads * group, depth),
                   kind.normals(random, keys, key_heads, depth), kind.normals(random, keys, key_heads, value_depth),
                   topk, depth**-0.5, size, causal, list(np.cumsum(lengths_q)), list(np.cumsum(lengths_kv)))


def arguments(p):
    return {"scale": p.scale, "block_size": p.size, "block_count": p.topk.shape[2], "causal": p.causal}


def run(p, **more):
    return gradus.nsa_selected_attention(p.query, p.key, p.value, p.topk, **arguments(p), **more)


class Attention(unittest.TestCase):
    def expect_both(self, p, random, **lengths):
        stats = F64 if p.kind.golden else F32
        got = run(p, **lengths)
        for result, want, kind in zip(got, forward(p), (p.kind, stats, stats)):
            check(kind, result, want)
        out, top, total = got
        g = p.kind.normals(random, *out.shape)
        for given in (out, None):
            grads = gradus.nsa_selected_attention_grad(g, p.query, p.key, p.value, given, top, total, p.topk,
                                                       **arguments(p), **lengths)
            for result, want in zip(grads, gradient(p, g, given, top, total)):
                check(p.kind, result, want)

    def test_causal_and_full(self):
        random = np.random.default_rng(1)
        for kind in HALVES:
            for causal in (True, False):
                with self.subTest(kind=kind.name, causal=causal), kind.options():
                    self.expect_both(problem(kind, random, causal=causal), random)
                    self.expect_both(problem(kind, random, (5,), (37,), 1, 4, 128, 128, causal=causal), random)

    def test_lengths_with_and_without_a_leading_zero(self):
        random = np.random.default_rng(2)
        kind = HALVES[0]
        p = problem(kind, random, (4, 7), (48, 32))
        self.expect_both(p, random, seq_q=p.ends_q, seq_kv=p.ends_kv)
        want = run(p, seq_q=p.ends_q, seq_kv=p.ends_kv)
        for seq_q, seq_kv in (([0, 4, 11], [0, 48, 80]), ([0, 4, 11], [48, 80]), (np.array([4, 11]), (0, 48, 80))):
            with self.subTest(seq_q=seq_q, seq_kv=seq_kv):
                for a, b in zip(run(p, seq_q=seq_q, seq_kv=seq_kv), want):
                    np.testing.assert_array_equal(a, b)

    def test_lengths_are_integers(self):
        p = problem(HALVES[0], np.random.default_rng(2), (4, 7), (48, 32))
        with self.assertRaisesRegex(TypeError, "float"):  # and not cut to 4
            run(p, seq_q=[4.5, 11], seq_kv=p.ends_kv)

    def test_one_batch_by_lengths(self):
        p = problem(HALVES[0], np.random.default_rng(3))
        want = run(p)
        for lengths in ({"seq_q": [0, 9]}, {"seq_kv": [64]}, {"seq_q": [9], "seq_kv": [0, 64]},
                        {"seq_q": [], "seq_kv": []}):
            with self.subTest(lengths):
                np.testing.assert_array_equal(run(p, **lengths)[0], want[0])

    def test_a_first_batch_without_queries(self):
        random = np.random.default_rng(4)
        p = problem(HALVES[0], random, (0, 6), (16, 48))
        self.expect_both(p, random, seq_q=[0, 6], seq_kv=[16, 64])

    def test_indices_of_other_integers(self):
        p = problem(HALVES[0], np.random.default_rng(5))
        want = run(p)[0]
        for dtype in ("i8", "i2"):
            np.testing.assert_array_equal(run(replace(p, topk=p.topk.astype(dtype)))[0], want)
        # 2^32 is no block; cut to 32 bits it would be block 0
        far = p.topk.astype("i8")
        far[far == 0] = 2**32
        none = p.topk.copy()
        none[none == 0] = -1
        np.testing.assert_array_equal(run(replace(p, topk=far))[0], run(replace(p, topk=none))[0])

    def test_formula(self):
        """The gradient of formulas_attention.py is the derivative of its forward."""
        random = np.random.default_rng(6)
        p = problem(F64, random)
        out, top, total = (a.want for a in forward(p))
        g = random.standard_normal(out.shape)
        for name, grad in zip(("query", "key", "value"), gradient(p, g, out, top, total)):
            step, x = 1e-5, getattr(p, name)
            direction = random.standard_normal(x.shape)
            sides = [forward(replace(p, **{name: x + s * direction}))[0].want for s in (step, -step)]
            difference = ((sides[0] - sides[1]) * g).sum() / (2 * step)
            self.assertLess(abs((grad.want * direction).sum() - difference), 1e-7 * (1 + abs(difference)), name)


if __name__ == "__main__":
    unittest.main()
