"""The type stubs are what stubs.py writes, and what the functions are."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import gradus

try:
    import mypy
except ImportError:
    mypy = None

ROOT = Path(__file__).parent.parent

GOOD = """
import gradus
import numpy as np
x = np.ones((2, 4), "f4")
y: np.ndarray = gradus.swi_glu(x)
z: np.ndarray = gradus.swi_glu(x, -1, out=y)
loss, softmax = gradus.fused_cross_entropy_loss_with_max_sum(x, x, x)
gradus.call("SwiGluGrad", yGrad=y, x=x, out=x)
with gradus.options(precision="golden", num_threads=1):
    code: int = gradus.Error(1, "").code
"""
BAD = ["gradus.swi_glu([1.0])", 'gradus.swi_glu(x, "0")', "gradus.exp_segsum(x, 1)", 'gradus.call("Nope", x=x)',
       'gradus.call("SwiGluGrad", x=x)', "gradus.fused_linear_online_max_sum(x, x, x, 0)"]


class Stubs(unittest.TestCase):
    def run_python(self, *arguments, cwd=ROOT):
        # Here the package is the one in this tree, whatever is installed; the library is the one in use.
        environment = {**os.environ, "GRADUS_HOME": str(Path(gradus._library._c._name).parent),
                       "PYTHONPATH": str(cwd)}
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False,
                              env=environment, cwd=cwd)
        return done.returncode, done.stdout + done.stderr

    def test_the_file_is_what_the_script_writes(self):
        code, output = self.run_python("stubs.py", "--check")
        self.assertEqual(code, 0, output)

    @unittest.skipIf(mypy is None, "needs mypy")
    def test_the_package_and_its_stubs(self):
        code, output = self.run_python("-m", "mypy", "gradus/_arrays.py", "gradus/_library.py", "gradus/_operators.py",
                                       "gradus/__init__.pyi", "stubs.py")
        self.assertEqual(code, 0, output)
        with tempfile.TemporaryDirectory() as folder:  # a copy of what there are stubs of
            shutil.copytree(ROOT / "gradus", Path(folder) / "gradus", ignore=shutil.ignore_patterns("torch*"))
            allowed = Path(folder) / "allowed.txt"
            allowed.write_text("gradus\\..*\\..*\n", encoding="utf-8")  # the modules behind it have none
            code, output = self.run_python("-m", "mypy.stubtest", "gradus", "--allowlist", str(allowed),
                                           "--ignore-unused-allowlist", cwd=folder)
        self.assertEqual(code, 0, output)

    @unittest.skipIf(mypy is None, "needs mypy")
    def test_what_they_say_to_a_user(self):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "user.py"
            script.write_text(GOOD, encoding="utf-8")
            code, output = self.run_python("-m", "mypy", str(script))
            self.assertEqual(code, 0, output)
            script.write_text(GOOD + "\n".join(BAD) + "\n", encoding="utf-8")
            code, output = self.run_python("-m", "mypy", str(script))
            for number, line in enumerate(BAD, GOOD.count("\n") + 1):
                self.assertIn(f"user.py:{number}: error: ", output, line)

    def test_they_travel_with_the_package(self):
        package = Path(gradus.__file__).parent
        self.assertTrue((package / "py.typed").exists() and (package / "__init__.pyi").exists())


if __name__ == "__main__":
    unittest.main()
