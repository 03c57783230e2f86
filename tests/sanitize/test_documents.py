"""The programs in the documents, run under the sanitizer as they are written there.

Those of docs/sanitizer.md give the id that they are about, and their repairs nothing; nor do the others.
"""
import glob
import json
import os
import re
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

from test_everything import ROOT, build, python_with_numpy

PAGE = "docs/sanitizer.md"
# What a program needs besides the default. Leaks are looked for in those about them alone: the frame frees nothing.
SETTINGS = {"leak": "on", "unused": "on,leak-check=full", "address-reused": "memcheck,quarantine=0"}
DEFAULT = "memcheck,racecheck,initcheck"
# Findings that follow from the one that a program is about.
FOLLOW = {"error-ignored": {"api-error"}}

# What README.md's call from C stands in, and what its calls from Python find.
FRAME = """
#include <cstdio>
%s
static int call(const aclTensor* yGrad, const aclTensor* x, const aclTensor* dx, aclrtStream stream) {
%s
return 0;
}
static aclTensor* make(int64_t columns) {
    const int64_t shape[] = {8, columns};
    void* address = nullptr;
    aclrtMalloc(&address, 8 * columns * 4, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemset(address, 8 * columns * 4, 0, 8 * columns * 4);
    return aclCreateTensor(shape, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 2, address);
}
static void end(aclTensor* tensor) {
    void* address = nullptr;
    aclGetRawTensorAddr(tensor, &address);
    aclDestroyTensor(tensor);
    aclrtFree(address);
}
int main() {
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtStream stream = nullptr;
    aclrtCreateStream(&stream);
    aclTensor *g = make(16), *x = make(32), *dx = make(32);
    const int code = call(g, x, dx, stream);
    end(g), end(x), end(dx);
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return code;
}
"""
ARRAYS = "import numpy as np\nx, dy = np.ones((64, 512), 'f4'), np.ones((64, 256), 'f4')\n"


def blocks(page):
    """(heading, language, text) of everything between fences."""
    with open(os.path.join(ROOT, page)) as file:
        text = file.read()
    found, heading = [], ""
    for match in re.finditer(r"^#+ ([^\n]*)$|^```(\S*)\n(.*?)^```$", text, re.M | re.S):
        if match[1] is not None:
            heading = match[1]
        else:
            found.append((heading, match[2], match[3]))
    return found


def run(command, settings, **environment):
    """(exit code, findings, report)"""
    with tempfile.TemporaryDirectory() as folder:
        log, lines = os.path.join(folder, "log"), os.path.join(folder, "json")
        environment = dict(os.environ, GRADUS_SANITIZE=f"{settings},log={log},json={lines}", **environment)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        with open(log) as file:
            report = file.read() + done.stderr
        with open(lines) as file:
            found = [json.loads(line) for line in file]
        return done.returncode, [f for f in found if "summary" not in f], report


def about(finding, name):
    return finding["id"] == name and finding.get("what", "tensor") == "tensor"  # what the frame leaves is its own


@unittest.skipIf(os.environ["SANITIZED"], "a compiler's sanitizer in the library must be linked first")
class Documents(unittest.TestCase):
    def build(self, folder, name, text):
        source = os.path.join(folder, name)
        with open(source, "w") as file:
            file.write(text)
        return build(folder, source)

    def check_id(self, folder, frame, name, level, wrong, right):
        settings = SETTINGS.get(name, DEFAULT)
        programs = [self.build(folder, f"{name}_{i}.c", frame.replace("/* here */", text))
                    for i, text in enumerate((wrong, right))]
        _, found, report = run([programs[0]], settings)
        told = [f for f in found if about(f, name)]
        self.assertTrue(told, f"{name}: {report}")
        self.assertEqual({f["level"] for f in told}, {level}, f"{name}: {report}")
        if name not in ("leak", "unused"):
            others = {f["id"] for f in found} - {name, "error-ignored"} - FOLLOW.get(name, set())
            self.assertEqual(others, set(), f"{name}: {report}")
        code, found, report = run([programs[1]], settings)
        self.assertEqual(code, 0, f"{name}: {report}")
        if name in ("leak", "unused"):
            found = [f for f in found if about(f, name)]
        self.assertEqual(found, [], f"{name}, mended: {report}")

    def test_every_id(self):
        page = blocks(PAGE)
        frame, = [text for heading, _, text in page if heading == "Every id"]
        with open(os.path.join(ROOT, PAGE)) as file:
            levels = dict(re.findall(r"^### (\S+)\n\n(error|warning|note): ", file.read(), re.M))
        self.assertGreater(len(levels), 25)
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = {}
            for name, level in levels.items():
                wrong, right = [text for heading, language, text in page if heading == name and language == "c"]
                jobs[name] = pool.submit(self.check_id, folder, frame, name, level, wrong, right)
            for name, job in jobs.items():
                with self.subTest(name):
                    job.result()

    def silent(self, command, **environment):
        code, found, report = run(command, "on", **environment)
        self.assertEqual((code, found), (0, []), report)

    def test_the_call_from_c(self):
        text, = [text for _, language, text in blocks("README.md") if language == "c++"]
        includes = "".join(line for line in text.splitlines(True) if line.startswith("#include"))
        body = "".join(line for line in text.splitlines(True) if not line.startswith("#include"))
        with tempfile.TemporaryDirectory() as folder:
            self.silent([self.build(folder, "readme.cpp", FRAME % (includes, body))])

    def test_the_calls_from_python(self):
        programs = [(page, text) for page in ("README.md", "python/README.md")
                    for _, language, text in blocks(page) if language == "python"]
        self.assertEqual(len(programs), 3)
        python = python_with_numpy()
        for page, text in programs:
            if "gradus.torch" in text:
                continue  # a line to show how it looks: PyTorch's tests have whole programs
            text = text.replace("4096, 22016", "64, 512").replace("4096, 11008", "64, 256")
            with self.subTest(page):
                self.silent([python, "-c", ARRAYS + text], PYTHONPATH=os.path.join(ROOT, "python"),
                            GRADUS_HOME=os.path.dirname(os.environ["LIBRARY"]), PYTHONDONTWRITEBYTECODE="1")

    def test_nothing_is_forgotten(self):
        """A program on another page would have to be run as well."""
        pages = {os.path.relpath(path, ROOT) for pattern in ("*.md", "docs/*.md", "python/*.md", "src/ops/*/*.md")
                 for path in glob.glob(os.path.join(ROOT, pattern)) if not path.endswith(".zh.md")}
        with_programs = {page for page in pages for _, language, _ in blocks(page) if language in ("c", "c++", "python")}
        self.assertEqual(with_programs, {"README.md", "python/README.md", PAGE})


if __name__ == "__main__":
    unittest.main()
