"""Runs the tool as a user would. The binary is $GRADUS."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BINARY = os.environ["GRADUS"]

RIGHT, MISMATCH, USAGE, UNSUPPORTED, ENVIRONMENT = range(5)


class Case(unittest.TestCase):
    def setUp(self):
        self._directory = tempfile.TemporaryDirectory()
        self.addCleanup(self._directory.cleanup)
        self.directory = pathlib.Path(self._directory.name)

    def path(self, name):
        return str(self.directory / name)

    def gradus(self, *arguments, exit=RIGHT, environment=None):
        """stdout; stderr is in self.stderr. A wrong exit code fails with both."""
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("GRADUS_", "ASCEND_"))}
        variables.update(environment or {})
        done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, env=variables,
                              cwd=self.directory, timeout=300)
        self.stderr = done.stderr
        self.assertEqual(done.returncode, exit, f"gradus {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
        return done.stdout

    def json(self, *arguments, **options):
        return json.loads(self.gradus(*arguments, "--json", **options))

    def refused(self, *arguments, words=(), exit=USAGE, **options):
        """The message of a refusal: one line on stderr, nothing on stdout."""
        self.assertEqual(self.gradus(*arguments, exit=exit, **options), "")
        self.assertRegex(self.stderr, r"^gradus: ")
        for word in words:
            self.assertIn(word, self.stderr)
        return self.stderr
