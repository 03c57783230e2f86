"""GRADUS_LOG: what the library writes to stderr while a program runs."""
import unittest

from common import USAGE, Case

CALL = r"^gradus: (acl|gradus)\w+ 0 \d+ µs$"
LAUNCH = r"^gradus: aclnnSwiGlu x\[2, 8\]:f32 out\[2, 4\]:f32 path \w+ workspace 0 \d+ µs$"
RIGHT, WRONG = "x=ones[2,8]", "x=ones[2,7]"


class Log(Case):
    def lines(self, level, x=RIGHT, exit=0):
        environment = {} if level is None else {"GRADUS_LOG": level}
        self.gradus("run", "SwiGlu", x, "out=zeros[2,3]" if x == WRONG else "out=out.npy", exit=exit,
                    environment=environment)
        return self.stderr.splitlines()

    def test_off_unless_asked_for(self):
        self.assertEqual(self.lines(None), [])
        self.assertEqual(self.lines("off"), [])

    def test_error_writes_a_line_a_refusal(self):
        self.assertEqual(self.lines("error"), [])
        told = self.lines("off", WRONG, USAGE)  # what the tool says by itself
        self.assertEqual(len(told), 1)
        for level in ("error", "info"):
            self.assertEqual(self.lines(level, WRONG, USAGE), told * 2)
        self.assertRegex(told[0], "^gradus: aclnnSwiGlu: x: size 7")

    def test_info_writes_a_line_a_launch(self):
        lines = self.lines("info")
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], LAUNCH)

    def test_trace_writes_a_line_a_call(self):
        lines = self.lines("trace")
        called = [line.split()[1] for line in lines]
        for function in ("aclInit", "aclrtSetDevice", "aclrtCreateStream", "gradusLaunch", "aclFinalize"):
            self.assertEqual(called.count(function), 1, function)
        self.assertLess(called.index("aclrtSetDevice"), called.index("gradusLaunch"))
        launches = [line for line in lines if "workspace" in line]
        self.assertEqual(len(launches), 1)
        self.assertRegex(launches[0], LAUNCH)
        for line in lines:
            if line not in launches:
                self.assertRegex(line, CALL)

    def test_trace_tells_the_code(self):
        lines = self.lines("trace", WRONG, USAGE)
        at = [i for i, line in enumerate(lines) if line.startswith("gradus: aclnnSwiGlu: x: size 7")][0]
        self.assertRegex(lines[at + 1], r"^gradus: aclnnSwiGlu 161002 \d+ µs$")  # the call ends after its refusal

    def test_wrong_level(self):
        self.assertIn("GRADUS_LOG: value 'loud', expected off, error, info or trace", self.lines("loud", exit=4)[0])


if __name__ == "__main__":
    unittest.main()
