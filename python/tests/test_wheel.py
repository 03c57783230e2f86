"""The wheel (GRADUS_WHEEL) as users get it: into an empty environment, beside PyTorch, into another Python."""

import glob
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import unittest
import zipfile
from pathlib import Path

TESTS = Path(__file__).parent
WHEEL = os.environ.get("GRADUS_WHEEL")
CLEAN = {name: value for name, value in os.environ.items()
         if name not in ("GRADUS_HOME", "ASCEND_HOME_PATH", "LD_LIBRARY_PATH", "PYTHONPATH")}
# An operator without NumPy: σ(-2)·(-2)·14.
BARE = """
import sys
sys.path.append({tests!r})
import gradus
from exported import of_floats
x, _ = of_floats([-2.0, 14.0])
out, result = of_floats([0.0])
gradus.call("SwiGlu", x=x, out=out)
print(gradus.__version__, len(gradus.catalogue()), round(result[0], 3), "numpy" in sys.modules, gradus.__file__)
""".format(tests=str(TESTS))


def run(*command, **environment):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**CLEAN, **environment})
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def other_pythons():
    """Of every other version on PATH that this package is for, one that starts."""
    found = {}
    for path in sorted(p for folder in os.get_exec_path() for p in glob.glob(f"{folder}/python3.*")):
        match = re.fullmatch(r"python3\.(\d+)", os.path.basename(path))
        if match is None or int(match[1]) < 10 or int(match[1]) == sys.version_info.minor or match[1] in found:
            continue
        if subprocess.run([path, "-c", "import ctypes"], capture_output=True, check=False).returncode == 0:
            found[match[1]] = path
    return list(found.values())


@unittest.skipUnless(WHEEL, "GRADUS_WHEEL names no wheel")
class Wheel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def environment(self):
        """A new environment with the wheel and nothing else; its Python."""
        run(sys.executable, "-m", "venv", "--without-pip", self.folder / "env")
        python = self.folder / "env" / "bin" / "python"
        run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps", WHEEL)
        return python

    def test_tag_and_contents(self):
        self.assertRegex(os.path.basename(WHEEL), r"^gradus_ops-[0-9.]+-py3-none-manylinux_2_\d+_\w+\.whl$")
        names = zipfile.ZipFile(WHEEL).namelist()
        for name in ("gradus/__init__.py", "gradus/__init__.pyi", "gradus/py.typed", "gradus/lib/libgradus.so"):
            self.assertIn(name, names)
        foreign = [n for n in names if re.search(r"lib(torch|c10|gomp|stdc)|tests/|csrc/", n)]
        self.assertEqual(foreign, [])

    def test_empty_environment(self):
        version, operators, value, numpy, file = run(self.environment(), "-c", BARE).split()
        self.assertEqual((operators, value, numpy), ("11", "-3.338", "False"))
        self.assertEqual(version, re.search(r"gradus_ops-([0-9.]+)-", WHEEL)[1])
        self.assertTrue(file.startswith(str(self.folder)), file)

    def test_beside_torch(self):
        try:
            import torch  # noqa: F401
        except ImportError:
            self.skipTest("needs PyTorch")
        python = self.environment()
        site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        (site / "others.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
        code = """
import gradus, numpy, torch
x = torch.randn(4, 6, dtype=torch.bfloat16)
a, b = x.double().chunk(2, -1)
want = torch.nn.functional.silu(a) * b
got = torch.from_numpy(gradus.swi_glu(x).astype("f8"))
print(bool((got - want).abs().max() <= 2.0**-7 * want.abs().max()), gradus.__file__)
"""
        right, file = run(python, "-c", code).split()
        self.assertEqual(right, "True")
        self.assertTrue(file.startswith(str(self.folder)), file)

    def test_other_pythons(self):
        pythons = other_pythons()
        if not pythons:
            self.skipTest("no other Python 3.10 or later on PATH")
        for python in pythons:
            with self.subTest(python=python):
                target = self.folder / os.path.basename(python)
                run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps",
                    "--target", target, WHEEL)
                self.assertIn(" 11 -3.338 False ", run(python, "-c", BARE, PYTHONPATH=str(target)))


if __name__ == "__main__":
    unittest.main()
