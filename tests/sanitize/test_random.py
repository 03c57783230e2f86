"""Random programs against the truth: the pairs that the sanitizer reports are the pairs for which both orders occur."""
import json
import os
import re
import subprocess
import tempfile
import unittest

PROGRAMS = os.environ["RANDOM_PROGRAMS"]
COUNT = 2000
ROUNDS = 50 if os.environ.get("GRADUS_TEST_LONG") else 1


def spelled(part):
    """The numbers of program and call, from the digits in a stack."""
    digits = [int(m.group(1)) for frame in part["stack"] if (m := re.search(r"step<(\d)>", frame["function"]))]
    value = 0
    for digit in reversed(digits):
        value = value * 4 + digit
    return value // 16, value % 16


def run(seed, settings, *only):
    """(truth, programs that hang, what is reported, what the program printed)"""
    with tempfile.TemporaryDirectory() as folder:
        lines, log = os.path.join(folder, "json"), os.path.join(folder, "log")
        environment = dict(os.environ, GRADUS_SANITIZE=f"racecheck,{settings}json={lines},log={log}")
        done = subprocess.run([PROGRAMS, str(COUNT), str(seed), *only], env=environment, capture_output=True, text=True,
                              timeout=200)
        assert done.returncode == 0, done.stderr
        truth, hangs, reported = {}, 0, {}
        for line in done.stdout.splitlines():
            if line.startswith(" "):
                continue
            number, *pairs = line.split()
            if pairs == ["hangs"]:
                hangs += 1
            else:
                truth[int(number)] = {tuple(map(int, pair.split("-"))) for pair in pairs}
        with open(lines) as file:
            findings = [json.loads(line) for line in file]
        for finding in findings:
            if finding.get("id") != "race":
                continue
            (program, later), (other, earlier) = map(spelled, finding["parts"][:2])
            assert program == other, finding
            reported.setdefault(program, set()).add(tuple(sorted((earlier, later))))
        return truth, hangs, reported, done.stdout


def still_wrong(seed, number):
    """Run again by itself. A program goes on when its callback tells it to, which may be a moment before the callback has
    ended: what is asked for in between waits for that end, and is then not seen to race with the host."""
    for _ in range(5):
        truth, _, reported, printed = run(seed, "keep=all,", "only", str(number))
        if "callback" in printed and reported.get(number, set()) == truth[number]:
            return False
    return True


@unittest.skipIf("thread" in os.environ.get("SANITIZED", ""), "the thread sanitizer sees these races, too")
class Random(unittest.TestCase):
    def test_pairs(self):
        for seed in range(1, ROUNDS + 1):
            truth, hangs, reported, _ = run(seed, "keep=all,")
            racy = sum(bool(pairs) for pairs in truth.values())
            self.assertGreater(racy, COUNT // 4)
            self.assertGreater(hangs, 0)
            wrong = {n: (pairs, reported.get(n, set())) for n, pairs in truth.items()
                     if reported.get(n, set()) != pairs and still_wrong(seed, n)}
            self.assertEqual(wrong, {}, f"seed {seed}: (truth, reported)")

    def test_covered_accesses_are_forgotten(self):
        """As users run it, an access that a later one covers is forgotten: fewer pairs, of the same programs."""
        truth, _, reported, _ = run(7, "")
        self.assertLessEqual(set(reported), set(truth))
        for number, pairs in truth.items():
            self.assertLessEqual(reported.get(number, set()), pairs, number)
            self.assertEqual(bool(reported.get(number)), bool(pairs), number)


if __name__ == "__main__":
    unittest.main()
