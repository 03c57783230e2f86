"""What is refused, how a command ends, and where its output goes."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import unittest

import numpy as np

from common import BINARY, ENVIRONMENT, MISMATCH, USAGE, Case


class Options(Case):
    def test_numbers_that_are_none(self):
        np.save(self.path("a.npy"), np.ones(4, np.float32))
        for words in (["diff", "a.npy", "a.npy", "--rtol", "nan"], ["diff", "a.npy", "a.npy", "--atol", "inf"],
                      ["diff", "a.npy", "a.npy", "--rtol", "-1"], ["diff", "a.npy", "a.npy", "--rtol", "1e-3x"],
                      ["diff", "a.npy", "a.npy", "--top", "-1"], ["run", "SwiGlu", "--threads", "abc"],
                      ["run", "SwiGlu", "--threads", "1.5"], ["run", "SwiGlu", "--repeat", "-2"],
                      ["check", "SwiGlu", "--seed", "-1"], ["bench", "SwiGlu", "--shape", "0"],
                      ["check", "SwiGlu", "--threads", "0"]):
            with self.subTest(words):
                self.refused(*words, words=[words[-2]])
        self.gradus("diff", "a.npy", "a.npy", "--rtol", "0", "--top", "0")

    def test_one_flag_one_meaning(self):
        seeds = [self.json("run", "SwiGlu", "x=[2,8]", *words)["outputs"] for words in
                 (["--seed", "5"], ["seed=5"], ["seed=5", "--seed", "6"], ["--seed", "6"])]
        self.assertEqual(seeds[0], seeds[1])
        self.assertEqual(seeds[1], seeds[2])
        self.assertNotEqual(seeds[2], seeds[3])
        np.save(self.path("a.npy"), np.ones((2, 4), np.float32))
        self.gradus("diff", "a.npy", "a.npy", "-o", "report.html", "--output", "report.json")
        self.assertTrue(json.loads((self.directory / "report.json").read_text())["pass"])
        self.refused("diff", "a.npy", "a.npy", "-o", "report.txt", words=["report.txt", ".html", ".json"])
        self.refused("diff", "a.npy", "a.npy", "-o", "/no/where.html", words=["/no/where.html"], exit=ENVIRONMENT)

    def test_words_that_nobody_takes(self):
        self.refused("describe", "SwiGlu", "SwiGlu", words=["describe: 'SwiGlu' is not expected"])
        self.refused("diff", "a.npy", "--rtoll", "3", words=["unknown option --rtoll", "--rtol"])
        self.refused("run", "SwiGlu", "-x", words=["unknown option -x"])


class Results(Case):
    def test_an_output_that_is_no_file(self):
        for word in ("out=foo", "out=foo.npz", "out=y.txt"):
            self.refused("run", "SwiGlu", "x=[2,8]", word, words=["out: ", word[4:], ".npy"])
        self.assertEqual(os.listdir(self.directory), [])

    def test_a_dtype_that_changes_nothing(self):
        self.refused("run", "SwiGlu", "dtype=int32", words=["dtype", "int32", "bf16"])
        self.refused("run", "FusedLinearCrossEntropyLossGrad", "dtype=int64", words=["dtype", "int64"])
        self.refused("check", "SwiGlu", "x=[2,8]", "dtype=bool", words=["dtype", "bool"])

    def test_writing_is_checked_before_the_work(self):
        log = {"GRADUS_LOG": "info"}
        self.refused("run", "SwiGlu", "x=[2,8]", "out=/no/where.npy", words=["/no/where.npy"], exit=ENVIRONMENT,
                     environment=log)
        self.assertNotIn("aclnnSwiGlu", self.stderr)
        self.gradus("run", "SwiGlu", "x=[2,8]", "out=here.npy", environment=log)
        self.assertIn("aclnnSwiGlu", self.stderr)
        os.mkdir(self.path("y.npy"))
        self.refused("run", "SwiGlu", "x=[2,8]", "out=y.npy", words=["y.npy", "directory"], exit=ENVIRONMENT)

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_a_full_disk(self):
        for words in (["list"], ["list", "--json"], ["info"], ["describe", "SwiGlu"], ["run", "SwiGlu"], ["--help"],
                      ["--version"], ["check", "SwiGlu", "x=[2,8]", "--quick"]):
            with self.subTest(words), open("/dev/full", "w") as full:
                done = subprocess.run([BINARY, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
                self.assertEqual(done.returncode, ENVIRONMENT)
                self.assertRegex(done.stderr, "^gradus: .*(space|write|output error)")


class Check(Case):
    def test_a_mistake_of_the_user_is_no_fault(self):
        for words, message in ((["x=none.npy"], "none.npy: No such file"), (["x=[5,7]"], "x: shape [5,7]"),
                               (["x=[5,8]", "dim=9"], "dim"), (["y=[5,8]"], "no argument")):
            self.refused("check", "SwiGlu", *words, "--quick", words=[message])
            found = self.json("check", "SwiGlu", *words, "--quick", exit=USAGE)
            self.assertEqual((found["schema"], found["exit"]), ("gradus-error/1", USAGE))

    def test_arguments_with_blanks(self):
        os.mkdir(self.path("a b"))
        np.save(self.path("a b/x [1].npy"), np.ones((4, 8), np.float32))
        self.assertIn("right", self.gradus("check", "SwiGlu", "x=a b/x [1].npy", "--quick"))
        self.json("bench", "SwiGlu", "x=a b/x [1].npy", "--quick", "--dtype", "f32")

    def test_no_message_of_another_call(self):
        # Instruction sets that this CPU lacks were asked for before; nothing of that may be told here.
        self.refused("check", "SwiGlu", "x=[5,8]", "yy=[2]", words=["yy"])
        self.refused("check", "SwiGlu", "x=[5,8]:int32", words=["x: dtype int32"])
        self.assertEqual(self.stderr.count("\n"), 1)


class Json(Case):
    def test_names_that_are_not_utf8(self):
        name = os.fsencode(self.path("x")) + b"\xff.npy"
        with open(name, "wb") as file:
            np.save(file, np.ones((2, 4), np.float32))
        word = b"\xff.npy"
        for words in ([b"run", b"SwiGlu", b"x=x" + word], [b"run", b"SwiGlu", b"x=none" + word],
                      [b"diff", b"x" + word, b"x" + word], [b"run", b"SwiGlu", b"x=x" + word, b"out=y" + word],
                      [b"\xff"], [b"run", b"\xff"], [b"check", b"SwiGlu", b"x=x" + word],
                      [b"bench", b"SwiGlu", b"x=x" + word, b"--quick", b"--dtype", b"f32"]):
            with self.subTest(words):
                done = subprocess.run([os.fsencode(BINARY), *words, b"--json"], capture_output=True, timeout=60,
                                      cwd=self.directory)
                self.assertIn("schema", json.loads(done.stdout.decode("utf-8")))

    def test_errors_of_the_parser(self):
        for words in (["rin"], ["run"], ["diff", "--top"], ["bench", "--shape", "x"], ["check", "--none"]):
            self.assertEqual(self.json(*words, exit=USAGE)["exit"], USAGE)

    def test_lists(self):
        self.assertEqual(len(self.json("list", "--names")["operators"]), 11)
        self.assertGreater(len(self.json("bench", "--list")["runs"]), 11)


class Terminal(Case):
    def screen(self, columns, *words):
        """What a terminal of that width is sent, on stdout and stderr."""
        try:
            master, slave = pty.openpty()
        except OSError as error:  # a container without /dev/pts
            self.skipTest(str(error))
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        end = b"\0"  # written when the program has ended: what closes a terminal's last end may take its text with it
        with subprocess.Popen([BINARY, *words], stdout=slave, stderr=slave, cwd=self.directory) as process:
            threading.Thread(target=lambda: (process.wait(), os.write(slave, end))).start()
            text = b""
            while not text.endswith(end):
                text += os.read(master, 65536)
        os.close(slave)
        os.close(master)
        self.assertEqual(process.returncode, 0, text)
        return text.removesuffix(end).decode()

    def test_widths_follow_it(self):
        plain = lambda text: re.sub(r"\x1b\[[0-9;]*[mK]", "", text).replace("\r", "").splitlines()
        for words in (["list"], ["describe", "NsaSelectedAttentionGrad"], ["info"]):
            for columns in (80, 120):
                lines = plain(self.screen(columns, *words))
                rows = [line for line in lines if re.match(r"(?!try|doc|prod|round)\S+  ", line)]  # of tables
                longest = max(rows, key=len)
                self.assertLessEqual(len(longest), columns, longest)
        wide = plain(self.screen(400, "list"))
        narrow = plain(self.screen(80, "list"))
        self.assertEqual(len(wide), 12)
        self.assertGreater(len(narrow), 12)
        self.assertEqual("".join("".join(narrow).split()).count("SwiGluGrad"), 1)

    def test_progress_moves(self):
        text = self.screen(100, "bench", "SwiGlu", "--quick", "--dtype", "bf16")
        pictures = re.findall(r"\r\x1b\[K([|/\\-]) measuring \[[#.]+\] (\d)/\d Swi", text)
        self.assertGreater(len(pictures), 2)
        self.assertGreater(len({turn for turn, _ in pictures}), 1)
        self.assertGreater(len({step for _, step in pictures}), 1)


if __name__ == "__main__":
    unittest.main()
