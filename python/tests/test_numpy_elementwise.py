"""swi_glu, exp_segsum and scaled_masked_softmax with their gradients, against f64 formulas."""

import unittest

import formulas
import gradus
import numpy as np
from bounds import F16, F32, F64, FLOATS, check


class SwiGlu(unittest.TestCase):
    def test_both_along_every_dim(self):
        random = np.random.default_rng(1)
        for kind in FLOATS:
            for shape, dim in (((6,), 0), ((5, 34), -1), ((8, 3, 5), 0), ((3, 1030, 2), 1), ((2, 3, 4, 66), -1)):
                with self.subTest(kind=kind.name, shape=shape, dim=dim), kind.options():
                    x = kind.normals(random, *shape, scale=3)
                    y = gradus.swi_glu(x, dim)
                    check(kind, y, formulas.swi_glu(kind, x, dim), elementwise=True)
                    g = kind.normals(random, *y.shape)
                    dx = gradus.swi_glu_grad(g, x, dim)
                    check(kind, dx, formulas.swi_glu_grad(kind, g, x, dim), elementwise=True)

    def test_known_answer(self):
        x, g = np.float32([-2, 14]), np.float32([-2])
        self.assertAlmostEqual(float(gradus.swi_glu_grad(g, x)[0]), 2.541959, places=5)

    def test_in_place(self):
        x, g = F32.normals(np.random.default_rng(2), 4, 8), np.ones((4, 4), "f4")
        want = gradus.swi_glu_grad(g, x)
        self.assertIs(gradus.swi_glu_grad(g, x, out=x), x)
        np.testing.assert_array_equal(x, want)


class ExpSegsum(unittest.TestCase):
    def test_both(self):
        random = np.random.default_rng(3)
        for kind in FLOATS:
            for shape in ((2, 3, 1), (1, 2, 7), (2, 1, 3, 16), (1, 1, 65), (1, 2, 130)):
                with self.subTest(kind=kind.name, shape=shape), kind.options():
                    x = kind.make(random.standard_normal(shape) * 0.3 - 0.1)
                    y = gradus.exp_segsum(x)
                    check(kind, y, formulas.exp_segsum(kind, x))
                    g = kind.normals(random, *y.shape)
                    check(kind, gradus.exp_segsum_backward(g, y), formulas.exp_segsum_backward(kind, g, y))

    def test_known_answers(self):
        ones = np.ones((1, 1, 4, 4), "f4")
        np.testing.assert_array_equal(gradus.exp_segsum_backward(ones, ones), [[[0, 3, 4, 3]]])
        row = gradus.exp_segsum(np.float32([[[0, 1, 2, 3]]]))[0, 0, 3]
        np.testing.assert_allclose(row, [403.428793, 148.413159, 20.085537, 1], rtol=1e-6)


class Softmax(unittest.TestCase):
    def test_both_with_masks_of_every_rank(self):
        random = np.random.default_rng(4)
        shape = (2, 3, 5, 37)
        for kind in FLOATS:
            for mask_shape in ((2, 3, 5, 37), (2, 1, 5, 37), (1, 3, 5, 37), (5, 37), (3, 5, 37), (37,), (5, 1),
                               (1, 1, 1, 1), ()):
                with self.subTest(kind=kind.name, mask=mask_shape), kind.options():
                    x, mask = kind.normals(random, *shape, scale=4), random.random(mask_shape) < 0.3
                    y = gradus.scaled_masked_softmax(x, np.asarray(mask), 0.3)
                    check(kind, y, formulas.softmax(kind, x, mask, 0.3))
                    g = kind.normals(random, *shape)
                    got = gradus.scaled_masked_softmax_backward(g, y, np.asarray(mask), 0.3)
                    check(kind, got, formulas.softmax_backward(kind, g, y, mask, 0.3))

    def test_long_rows_and_default_scale(self):
        random = np.random.default_rng(5)
        for kind in (F32, F16):  # beyond the device's 4096 columns
            x, mask = kind.normals(random, 1, 1, 2, 5001), np.zeros((2, 5001), bool)
            check(kind, gradus.scaled_masked_softmax(x, mask), formulas.softmax(kind, x, mask, 1.0))

    def test_known_answer(self):
        g = np.arange(1, 17, dtype="f4").reshape(1, 2, 4, 2)
        mask = np.array([[1, 1], [0, 0]] * 4, bool).reshape(g.shape)
        want = [0, 0, -66, -84, 0, 0, -742, -840, 0, 0, -2794, -3036, 0, 0, -6990, -7440]
        np.testing.assert_array_equal(gradus.scaled_masked_softmax_backward(g, g, mask).ravel(), want)

    def test_in_place(self):
        x, mask = F32.normals(np.random.default_rng(6), 1, 2, 3, 4), np.zeros((3, 4), bool)
        want = gradus.scaled_masked_softmax(x, mask)
        self.assertIs(gradus.scaled_masked_softmax(x, mask, out=x), x)
        np.testing.assert_array_equal(x, want)


class Formulas(unittest.TestCase):
    """The gradients of formulas.py are the derivatives of its forwards: differences along a random direction."""

    def expect_derivative(self, forward, gradient, x):
        random = np.random.default_rng(7)
        step, direction = 1e-5, random.standard_normal(x.shape)
        g = random.standard_normal(forward(x).shape)
        difference = ((forward(x + step * direction) - forward(x - step * direction)) * g).sum() / (2 * step)
        self.assertLess(abs((gradient(g) * direction).sum() - difference), 1e-7 * (1 + abs(difference)))

    def test_derivatives(self):
        random = np.random.default_rng(8)
        x, mask = random.standard_normal((1, 2, 4, 6)), random.random((4, 6)) < 0.3
        self.expect_derivative(lambda x: formulas.swi_glu(F64, x, -1).want,
                               lambda g: formulas.swi_glu_grad(F64, g, x, -1).want, x)
        self.expect_derivative(lambda x: formulas.exp_segsum(F64, x).want,
                               lambda g: formulas.exp_segsum_backward(F64, g, formulas.exp_segsum(F64, x).want).want, x)
        y = formulas.softmax(F64, x, mask, 0.5).want
        self.expect_derivative(lambda x: formulas.softmax(F64, x, mask, 0.5).want,
                               lambda g: formulas.softmax_backward(F64, g, y, mask, 0.5).want, x)


if __name__ == "__main__":
    unittest.main()
