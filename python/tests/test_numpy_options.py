"""Options of a thread, other threads, other processes; the catalogue."""

import contextlib
import multiprocessing
import os
import subprocess
import sys
import threading
import unittest

import gradus
import numpy as np
from bounds import F16
from gradus import _library

_library._c.gradusGetOption.restype = _library.c_char_p


def option(name):
    return _library._c.gradusGetOption(name.encode()).decode()


def in_thread(function):
    result = []
    thread = threading.Thread(target=lambda: result.append(function()))
    thread.start()
    thread.join()
    return result[0]


class Options(unittest.TestCase):
    def test_nesting(self):
        before = option("precision"), option("num_threads")
        with gradus.options(precision="golden", num_threads=1):
            self.assertEqual((option("precision"), option("num_threads")), ("golden", "1"))
            with gradus.options(precision="fast"):
                self.assertEqual((option("precision"), option("num_threads")), ("fast", "1"))
            self.assertEqual(option("precision"), "golden")
        self.assertEqual((option("precision"), option("num_threads")), before)

    def test_an_exception_takes_them_back(self):
        with contextlib.suppress(KeyError), gradus.options(precision="golden"):
            raise KeyError
        self.assertEqual(option("precision"), "fast")

    def test_a_wrong_one_changes_nothing(self):
        for wrong, words in (({"precison": "golden"}, ["precison", "limits, precision"]),
                             ({"limits": "of"}, ["limits: value 'of', expected on or off"]),
                             ({"num_threads": 0}, ["num_threads: value '0', expected a number from 1"])):
            with self.assertRaises(gradus.Error) as caught, gradus.options(precision="golden", **wrong):
                self.fail("not to be reached")
            self.assertEqual(caught.exception.code, 100000)
            for word in words:
                self.assertIn(word, str(caught.exception))
            self.assertEqual(option("precision"), "fast")

    def test_golden_is_another_computation(self):
        x = F16.normals(np.random.default_rng(1), 64, 512)
        f32 = x.astype("f4")
        fast = gradus.swi_glu(f32)
        with gradus.options(precision="golden"):
            golden = gradus.swi_glu(f32)
        self.assertTrue((fast != golden).any())
        np.testing.assert_allclose(fast, golden, rtol=1e-5)

    def test_limits_are_off_unless_asked_for(self):
        x = np.asfortranarray(np.ones((4, 8), "f4"))
        gradus.swi_glu(x)
        with gradus.options(limits="on"):
            gradus.swi_glu(np.ones((4, 8), "f4"))  # not device memory, and no complaint
            with self.assertRaisesRegex(gradus.Error, "x: .*contiguous"):
                gradus.swi_glu(x)
        code = "import gradus, numpy; gradus.swi_glu(numpy.ones((8, 4), 'f4').T)"
        for limits, works in (("on", False), ("off", True)):
            done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "GRADUS_LIMITS": limits},
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode == 0, works, done.stderr)

    def test_other_threads_do_not_see_them(self):
        with gradus.options(precision="golden"):
            self.assertEqual(in_thread(lambda: option("precision")), "fast")

            def other():
                with gradus.options(precision="fast", num_threads=1):
                    inside = option("precision")
                return inside, option("precision")

            self.assertEqual(in_thread(other), ("fast", "fast"))
            self.assertEqual(option("precision"), "golden")

    def test_many_threads_at_once(self):
        random = np.random.default_rng(2)
        arrays = [random.standard_normal((32, 64 + 2 * i)).astype("f4") for i in range(8)]
        want = [gradus.swi_glu(x) for x in arrays]
        wrong = []

        def work(i):
            for _ in range(50):
                if not (gradus.swi_glu(arrays[i]) == want[i]).all():
                    wrong.append(i)
                try:  # the message is this thread's own
                    gradus.swi_glu(arrays[i], i + 2)
                except gradus.Error as error:
                    if f"dim: {i + 2}," not in str(error):
                        wrong.append(str(error))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


def child(x):
    return option("precision"), gradus.swi_glu(x)


class Processes(unittest.TestCase):
    def test_fork(self):
        """As a DataLoader does: the parent has computed with all its threads before."""
        x = np.random.default_rng(3).standard_normal((512, 2048)).astype("f4")
        want = gradus.swi_glu(x)
        with gradus.options(precision="golden"), multiprocessing.get_context("fork").Pool(2) as pool:
            for precision, y in pool.map(child, [x, x, x, x]):
                self.assertEqual(precision, "golden")  # a fork is a copy of the thread that forks
                np.testing.assert_allclose(y, want, rtol=1e-5)
        np.testing.assert_array_equal(gradus.swi_glu(x), want)

    def test_spawn_starts_anew(self):
        with gradus.options(precision="golden"), multiprocessing.get_context("spawn").Pool(1) as pool:
            self.assertEqual(pool.apply(child, [np.ones(4, "f4")])[0], "fast")


class Catalogue(unittest.TestCase):
    def test_every_operator_has_a_function(self):
        names = [op["name"] for op in gradus.catalogue()]
        self.assertEqual(len(names), 11)
        for name in names:
            python = "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")
            self.assertTrue(callable(getattr(gradus, python)), python)
            self.assertIn(python, gradus.__all__)

    def test_is_the_callers_own(self):
        gradus.catalogue()[0]["name"] = "changed"
        self.assertNotEqual(gradus.catalogue()[0]["name"], "changed")
        gradus.call("SwiGlu", x=np.ones(2, "f4"), out=np.empty(1, "f4"))

    def test_call_is_the_function(self):
        x, g = np.random.default_rng(4).standard_normal((2, 3, 8)).astype("f4"), np.ones((2, 3, 4), "f4")
        out = np.empty_like(x)
        self.assertIsNone(gradus.call("SwiGluGrad", yGrad=g, x=x, dim=-1, out=out))
        np.testing.assert_array_equal(out, gradus.swi_glu_grad(g, x))


if __name__ == "__main__":
    unittest.main()
