"""What the sanitizer costs, as ratios between runs of one machine."""
import os
import platform
import subprocess
import unittest

VARIOUS = os.environ["VARIOUS"]


def nanoseconds(name, settings="on,log=/dev/null"):
    done = subprocess.run([VARIOUS, name], capture_output=True, text=True, timeout=600, check=True,
                          env=dict(os.environ, GRADUS_SANITIZE=settings, GRADUS_NUM_THREADS="1"))
    return float(done.stdout)


@unittest.skipIf(os.environ.get("SANITIZED"), "a compiler's sanitizer has costs of its own")
class Cost(unittest.TestCase):
    def test_frees_before(self):
        plain = freed = float("inf")
        for _ in range(10):  # others on the machine may disturb a run, and not all of them
            plain, freed = min(plain, nanoseconds("tiny_calls")), min(freed, nanoseconds("tiny_calls_after_many_frees"))
            if freed < 2 * plain:
                return
        self.fail(f"{freed:.0f} ns a call after 10,000 frees, {plain:.0f} before")

    @unittest.skipUnless(platform.machine() == "x86_64", "elsewhere stacks are not recognised")
    def test_tiny_calls(self):
        off = on = float("inf")
        for _ in range(10):
            off, on = min(off, nanoseconds("tiny_calls", "off")), min(on, nanoseconds("tiny_calls"))
            if on < 2.25 * off:  # twice, and some room for builds without optimisation
                break
        else:
            self.fail(f"{on:.0f} ns a call, {off:.0f} without the sanitizer")
        # wherever the program and its stack lie
        self.assertLess(max(nanoseconds("tiny_calls") for _ in range(8)), 2 * on)

    def test_conversions(self):
        self.assertLess(min(nanoseconds("conversions") for _ in range(3)), 1000)  # two calls

    def test_views_with_gaps(self):
        # 67,500 pieces, each of which would take nanoseconds to follow
        for name in ("strided_calls", "strided_calls_into_fresh_memory"):
            self.assertLess(min(nanoseconds(name) for _ in range(3)), 500e3, name)


if __name__ == "__main__":
    unittest.main()
