"""The judge can fail: mistakes that a kernel could make are seen in every dtype."""

import unittest

import formulas
import numpy as np
from bounds import F64, FLOATS, Answer, check


def faults(kind, want):
    """The right answer with one mistake in it, by name."""
    flat = kind.rounded(want).ravel()
    middle = flat.size // 2
    sign, one_off, tail, coarse = (flat.copy() for _ in range(4))
    sign[middle] *= -1
    one_off[middle:] = flat[middle - 1:-1]
    tail[-3:] = 0
    coarse *= 1 + np.resize([1, -1], flat.size) * 4 * 2.0**-kind.digits  # two units of the last digit
    wrong = {"sign": sign, "one off": one_off, "missing tail": tail, "coarse": coarse}
    return {name: kind.make(values.reshape(want.shape)) for name, values in wrong.items()}


class Judge(unittest.TestCase):
    def test_planted_faults(self):
        random = np.random.default_rng(1)
        for kind in FLOATS:
            x, g = kind.normals(random, 8, 66), kind.normals(random, 8, 33)
            answers = {"swi_glu": (formulas.swi_glu(kind, x, -1), True),
                       "grad": (formulas.swi_glu_grad(kind, g, x, -1), True),
                       "softmax": (formulas.softmax(kind, x, x > 2, 1.0), False)}
            for operator, (answer, elementwise) in answers.items():
                check(kind, kind.make(answer.want), answer, elementwise)
                for name, wrong in faults(kind, answer.want).items():
                    if name == "coarse" and kind in (FLOATS[0], F64):
                        continue  # f32 inside is promised to 4 units
                    with self.subTest(kind=kind.name, operator=operator, fault=name), self.assertRaises(AssertionError):
                        check(kind, wrong, answer, elementwise)

    def test_shape_dtype_and_nan(self):
        answer = Answer(np.ones(3), np.ones(3))
        for wrong in (np.ones(4, "f4"), np.ones(3, "f2"), np.float32([1, np.nan, 1])):
            with self.assertRaises(AssertionError):
                check(FLOATS[0], wrong, answer)


if __name__ == "__main__":
    unittest.main()
