"""Every planted program gives exactly its finding, its mended twin gives none, and so do the correct programs."""
import glob
import json
import os
import re
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
PLANTED, CORRECT = os.environ["PLANTED"], os.environ["CORRECT"]
SANITIZED = os.environ.get("SANITIZED", "")  # by the compiler
# What a program needs besides the default, by name.
NO_QUARANTINE = ("address_used_again", "repeated_with_an_address_used_again", "address_of_freed_memory_given_out_again")
SETTINGS = {name: "on,quarantine=0" for name in NO_QUARANTINE}
LATE = ("stream_asked_once", "event_asked_once", "event_synchronised_before_a_flagged_wait",
        "queued_work_dropped_by_force")
SCHEDULES = {name: "late" for name in LATE}  # or the work has ended by the time of the question


def settings_of(name):
    return "on,portability=full" if name.endswith("_in_full") else SETTINGS.get(name, "on")


def read(path):
    if not os.path.exists(path):
        return ""
    with open(path) as file:
        return file.read()


def run(program, *words, settings="on", expect_code=(0,)):
    with tempfile.TemporaryDirectory() as folder:
        log, lines = os.path.join(folder, "log"), os.path.join(folder, "json")
        environment = dict(os.environ, GRADUS_SANITIZE=f"{settings},log={log},json={lines}",
                           GRADUS_SCHEDULE=SCHEDULES.get(words[0], ""))
        done = subprocess.run([program, *words], env=environment, capture_output=True, text=True, timeout=600)
        text, found = read(log), [json.loads(line) for line in read(lines).splitlines()]
        assert done.returncode in expect_code, (words, done.returncode, done.stderr, text)
        return [f for f in found if "summary" not in f], text


def lines_in(folder):
    for path in sorted(glob.glob(os.path.join(HERE, folder, "*.cpp"))):
        for number, line in enumerate(read(path).splitlines(), 1):
            yield os.path.basename(path), number, line


def parse(folder, macro):
    """name → what its comment expects, and the lines marked a and b. A compiler's sanitizer does not survive threads in a child."""
    programs, expected, current = {}, "", None
    for file, number, line in lines_in(folder):
        if line.startswith("// expect "):
            expected = line[len("// expect "):].split()
        begin = re.match(rf"{macro}\((\w+)\) {{", line)
        if begin:
            current = programs[begin.group(1)] = {"expected": expected, "a": set(), "b": set()}
        mark = re.search(r"// ([ab])$", line.rstrip())
        if mark and current is not None:
            current[mark.group(1)].add((file, number))
    return {name: program for name, program in programs.items() if not (SANITIZED and "fork" in name)}


def lines_of(finding, part):
    if part >= len(finding["parts"]):
        return set()
    return {(os.path.basename(f["file"]), f["line"]) for f in finding["parts"][part]["stack"]}


class Planted(unittest.TestCase):
    def check(self, name, program):
        ids = {word for word in program["expected"] if "=" not in word}
        keys = [word.split("=") for word in program["expected"] if "=" in word]
        found, text = run(PLANTED, name, settings=settings_of(name), expect_code=(0, 1))
        self.assertEqual({f["id"] for f in found}, ids, f"{name}: {text}")
        told = [f["id"] for f in found if f["id"] not in ("leak", "error-ignored")]
        self.assertEqual(len(told), len(set(told)), f"{name}: a mistake is told twice: {text}")
        first = next(f for f in found if f["id"] == program["expected"][0])
        for key, value in keys:
            if key == "says":
                self.assertIn(value.replace("_", " "), text, name)
            else:
                self.assertEqual(first.get(key, "").replace(" ", "_"), value, f"{name}: {key}: {text}")
        for mark, part in (("a", 0), ("b", 1)):
            if program[mark]:
                self.assertTrue(program[mark] & lines_of(first, part), f"{name}: line {mark} {program[mark]}: {text}")

    def test_planted(self):
        programs = parse("planted", "PLANTED")
        self.assertGreater(len(programs), 45)
        if "thread" in SANITIZED:  # by a thread that might yet end a deadlock, for all that is known
            programs = {name: p for name, p in programs.items() if "deadlock" not in p["expected"]}
        with ThreadPoolExecutor(2) as pool:
            for result in [pool.submit(self.check, *item) for item in programs.items()]:
                with self.subTest():
                    result.result()

    def silent(self, program, *words):
        found, text = run(program, *words, settings=settings_of(words[0]))
        self.assertEqual(found, [], f"{words}: {text}")
        self.assertIn("gradus sanitize: nothing found", text, words)

    def test_mended(self):
        with ThreadPoolExecutor(2) as pool:
            for result in [pool.submit(self.silent, PLANTED, name, "mended") for name in parse("planted", "PLANTED")]:
                with self.subTest():
                    result.result()

    def test_correct(self):
        with ThreadPoolExecutor(2) as pool:
            for result in [pool.submit(self.silent, CORRECT, name) for name in parse("correct", "CORRECT")]:
                with self.subTest():
                    result.result()


if __name__ == "__main__":
    unittest.main()
