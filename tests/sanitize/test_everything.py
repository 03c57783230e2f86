"""Programs that were not written for the sanitizer give the findings of expected.txt, and no others.

The examples and one of Python's test programs always; with GRADUS_TEST_LONG every test program of the C interface, and those of
Python that need nothing but NumPy. A program's line has the ids of all its findings; lines that begin with a minus are its
tests that cannot pass or end under the sanitizer, with the reason.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIBRARY, BUILD = os.environ["LIBRARY"], os.environ["BUILD"]


def expectations():
    """program → (ids, tests left out)"""
    expected, program = {}, None
    with open(os.path.join(HERE, "expected.txt")) as file:
        for line in file:
            words = line.split("#")[0].split()
            if not words:
                continue
            if words[0] == "-":
                expected[program][1].append(words[1])
            else:
                program = words[0].removesuffix(":")
                expected[program] = (words[1:], [])
    return expected


EXPECTED = expectations()


def read(path):
    if not os.path.exists(path):  # a program that never calls the library
        return ""
    with open(path) as file:
        return file.read()


def python_with_numpy():
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
            return python
    raise unittest.SkipTest("no Python with NumPy")


def findings(command, **settings):
    with tempfile.TemporaryDirectory() as folder:
        log, lines = os.path.join(folder, "log"), os.path.join(folder, "json")
        environment = dict(os.environ, GRADUS_SANITIZE=f"on,log={log},json={lines}", GRADUS_TEST_ROUNDS="1",
                           GRADUS_TEST_SEED="1", **settings)
        environment.pop("GRADUS_TEST_LONG", None)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200)
        text, found = read(log), [json.loads(line) for line in read(lines).splitlines()]
        assert done.returncode == 0, (command, done.returncode, done.stdout[-4000:], done.stderr, text[-2000:])
        return sorted({f["id"] for f in found if "summary" not in f}), text


def build(folder, source):
    program = os.path.join(folder, os.path.basename(source).split(".")[0])
    compiler = ["gcc", "-std=c11"] if source.endswith(".c") else ["g++", "-std=c++11"]
    where = os.path.dirname(LIBRARY)
    includes = [f"-I{os.path.join(ROOT, 'include')}", f"-I{os.path.join(BUILD, 'include')}"]
    subprocess.run([*compiler, "-g", "-O1", source, *includes, f"-L{where}", f"-Wl,-rpath,{where}", "-lgradus", "-pthread",
                    "-ldl", "-lm", "-o", program], check=True)
    return program


class Everything(unittest.TestCase):
    def check(self, name, command, **settings):
        found, text = findings(command, **settings)
        self.assertEqual(found, EXPECTED.get(name, ([], []))[0], f"{name}\n{text}")

    @unittest.skipIf(os.environ["SANITIZED"], "a compiler's sanitizer in the library must be linked first")
    def test_examples(self):
        sources = sorted(glob.glob(os.path.join(ROOT, "examples", "*.c*")))
        self.assertGreater(len(sources), 5)
        with tempfile.TemporaryDirectory() as folder:
            os.environ["LD_LIBRARY_PATH"] = folder  # what dlopen.c opens
            for name in ("libopapi.so", "libascendcl.so", "libnnopbase.so"):
                os.symlink(LIBRARY, os.path.join(folder, name))
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                programs = dict(zip(sources, pool.map(lambda source: build(folder, source), sources)))
            for source, program in programs.items():
                with self.subTest(source):
                    self.check("examples/" + os.path.basename(source), [program])

    @unittest.skipIf(os.environ["SANITIZED"], "a compiler's sanitizer in the library must be linked first")
    def test_python(self):
        python = python_with_numpy()
        folder = os.path.join(ROOT, "python", "tests")
        scripts = sorted(glob.glob(os.path.join(folder, "test_numpy_*.py")))
        self.assertGreater(len(scripts), 5)
        if not os.environ.get("GRADUS_TEST_LONG"):
            scripts = [os.path.join(folder, "test_numpy_elementwise.py")]
        for script in scripts:
            name = os.path.relpath(script, ROOT)
            with self.subTest(name):
                self.check(name, [python, "-m", "unittest", "-q", os.path.basename(script).removesuffix(".py")],
                           PYTHONPATH=os.pathsep.join((os.path.join(ROOT, "python"), folder)),
                           GRADUS_HOME=os.path.dirname(LIBRARY), PYTHONDONTWRITEBYTECODE="1")

    @unittest.skipUnless(os.environ.get("GRADUS_TEST_LONG"), "long")
    def test_test_programs(self):
        listed = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], capture_output=True, check=True)
        commands = {test["command"][0] for test in json.loads(listed.stdout)["tests"]}
        programs = sorted(c for c in commands if c.startswith(BUILD) and c.endswith("_test"))
        self.assertGreater(len(programs), 30)
        for program in programs:
            name = os.path.basename(program)
            left_out = EXPECTED.get(name, ([], []))[1]
            # of an operator's tests those that are about calls: their arithmetic would take an hour
            which = "*.Executors:*CFunctions:*Views" if "/testing/" in program else "*"
            with self.subTest(name):
                self.check(name, [program, "--gtest_brief=1", f"--gtest_filter={which}-" + ":".join(left_out)])


if __name__ == "__main__":
    unittest.main()
