"""gradus bench on shapes so small that only the tool is tested, not the machine."""
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

from common import BINARY, ENVIRONMENT, MISMATCH, RIGHT, USAGE, Case

TENSOR = ("SwiGluGrad", "x=[64,256]:bf16")


def busy(count):
    """Processes that take all they can get."""
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]


class Measured(Case):
    def test_list_has_the_shapes_of_real_models(self):
        text = self.gradus("bench", "--list")
        for words in (r"SwiGluGrad +1 +LLaMA-2-7B +x=\[4096,1,22016\] +bf16 f16 f32",
                      r"FusedLinearOnlineMaxSum +3 +GPT-2 +BT=1024 V=50257 H=768 +bf16 f16\n"):
            self.assertRegex(text, words)
        for name in self.gradus("list", "--names").split():
            self.assertRegex(text, rf"(?m)^{name} ")
        one = self.gradus("bench", "--list", "--shape", "2", "--dtype", "f32,bf16", "SwiGlu")
        self.assertRegex(one, r"SwiGlu +2 .* bf16 f32\n")
        self.assertEqual(len(one.splitlines()), 2)

    def test_streams(self):
        found = self.json("bench", *TENSOR, "--quick", "--threads", "1")
        self.assertEqual((found["schema"], found["machine"]["threads"]), ("gradus-bench/2", 1))
        result, = found["results"]
        self.assertEqual((result["operator"], result["dtype"]), ("SwiGluGrad", "bf16"))
        self.assertEqual(result["work"], 64 * 128 * 2 * 5)  # yGrad, and the halves of x and out
        self.assertRegex(result["limit"], "stream, 3 read, 2 written")
        self.assertGreater(result["fraction"]["median"], 0)
        self.assertLessEqual(result["fraction"]["q1"], result["fraction"]["q3"])

    def test_products(self):
        found = self.json("bench", "FusedLinearCrossEntropyLossGrad", "BT=32", "V=256", "H=64", "--quick", "--dtype",
                          "f16")
        result, = found["results"]
        self.assertEqual((result["work"], result["unit"]), (6 * 32 * 256 * 64, "GFLOP/s"))
        self.assertGreater(result["target"], 0)

    def test_every_operator_has_a_limit_that_fits_its_tensors(self):
        tiny = {op: self.json("describe", op)["operator"]["tiny"]
                for op in self.gradus("list", "--names").split()}
        for op, arguments in tiny.items():
            for result in self.json("bench", op, *arguments.split(), "--quick")["results"]:
                self.assertGreater(result["fraction"]["median"], 0, op)
                self.assertGreater(result["flops"], 0, op)

    def test_page_and_file(self):
        page, file = self.path("bench.html"), self.path("bench.json")
        text = self.gradus("bench", *TENSOR, "--quick", "--html", page, "--save", file)
        self.assertRegex(text, r"SwiGluGrad +bf16 +x=\[64,256\]:bf16 +[\d.]+ GB/s")
        with open(file, encoding="utf-8") as saved:
            self.assertEqual(len(json.load(saved)["results"]), 1)
        with open(page, encoding="utf-8") as written:
            html = written.read()
        drawing = re.search(r"<svg.*?</svg>", html, re.S).group()
        marks = xml.etree.ElementTree.fromstring(drawing)
        names = [mark.tag.split("}")[-1] for mark in marks.iter()]
        self.assertEqual(names.count("circle"), 1)
        self.assertEqual(html.count("<svg"), 2)  # for two widths
        self.assertIn("operations a byte", drawing)
        self.assertNotIn("nan", drawing)
        self.assertNotRegex(html, r"(src|href)=['\"]http")

    def test_tables(self):
        self.gradus("bench", *TENSOR, "--quick", "-o", "b.md", "-o", "b.csv", "-o", "b.json")
        with open(self.path("b.csv"), encoding="utf-8", newline="") as file:
            row, = csv.DictReader(file)
        with open(self.path("b.json"), encoding="utf-8") as file:
            result, = json.load(file)["results"]
        self.assertEqual((row["operator"], row["arguments"]), ("SwiGluGrad", "x=[64,256]:bf16"))
        self.assertAlmostEqual(float(row["fraction"]) / result["fraction"]["median"], 1, places=4)
        lines = (self.directory / "b.md").read_text(encoding="utf-8").splitlines()
        heading, rule, data = [line for line in lines if line.startswith("|")][:3]
        self.assertEqual({heading.count("|"), rule.count("|"), data.count("|")}, {heading.count("|")})
        self.assertIn("SwiGluGrad", data)

    def test_a_baseline(self):
        words = ["FusedLinearCrossEntropyLossGrad", "BT=32", "V=256", "H=64", "--quick", "--dtype", "f16"]
        self.gradus("bench", *words, "-o", "b.json")
        with open(self.path("b.json"), encoding="utf-8") as file:
            saved = json.load(file)
        for factor, verdict, exit in ((1e-3, "ok", RIGHT), (1e3, "slower", MISMATCH)):
            for key in ("q1", "median", "q3"):
                saved["results"][0]["fraction"][key] *= factor
            (self.directory / "b2.json").write_text(json.dumps(saved))
            found = self.json("bench", *words, "--baseline", "b2.json", exit=exit)
            self.assertEqual(found["results"][0]["baseline"]["verdict"], verdict)
            for key in ("q1", "median", "q3"):
                saved["results"][0]["fraction"][key] /= factor
        self.assertIn("slower than the baseline", self.gradus("bench", *words, "--baseline", "b2.json", exit=MISMATCH))
        saved["machine"]["cpu"] = "Abacus"
        saved["results"][0]["fraction"] = {"q1": 1e-6, "median": 1e-6, "q3": 1e-6}
        (self.directory / "b2.json").write_text(json.dumps(saved))
        self.assertIn("another machine: cpu \"Abacus\"", self.gradus("bench", *words, "--baseline", "b2.json"))
        (self.directory / "none.json").write_text("{}")
        for file in ("none.json", "nowhere.json", "b.json/"):
            self.refused("bench", *words, "--baseline", file, words=["--baseline", file])

    def test_a_busy_machine_gives_no_verdict(self):
        others = busy(2 * os.cpu_count())
        try:
            time.sleep(0.2)  # they may take as long as they like to start; below it is measured whether they did
            found = self.json("bench", "FusedLinearCrossEntropyLossGrad", "BT=256", "V=2048", "H=128", "--quick",
                              "--dtype", "f16")
        finally:
            for process in others:
                process.kill()
                process.wait()
        result, = found["results"]
        self.assertGreater(result["others"], 0.05)
        self.assertNotEqual(result["verdict"], "ok")
        if result["verdict"] == "no verdict":
            self.assertIn("others took", result["doubt"])
            self.assertNotIn("met", result)

    def test_strict(self):
        # On so few elements nothing but the call counts: far below any target, on a quiet machine and on a busy one.
        words = ["SwiGlu", "x=[1,2]", "--quick", "--dtype", "f32"]
        verdict = self.json("bench", *words)["results"][0]["verdict"]
        self.assertIn(verdict, ("below", "no verdict", "ok"))
        if verdict == "below":
            self.gradus("bench", *words, "--strict", exit=MISMATCH)

    def test_an_interrupt_leaves_no_files(self):
        command = [BINARY, "bench", "SwiGluGrad", "-o", "b.json", "-o", "b.html"]
        with subprocess.Popen(command, cwd=self.directory, stdout=subprocess.PIPE) as process:
            process.stdout.readline()  # it is at work
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertEqual(os.listdir(self.directory), [])

    def test_refusals(self):
        self.refused("bench", "SwiGlu", "--shape", "9", words=["--list"])
        self.refused("bench", "SwiGlu", "--dtype", "f64", words=["f64"])
        self.refused("bench", "SwiGlu", "--threads", "0")
        self.refused("bench", "SwiGlu", "SwiGluGrad", "x=[2,4]", words=["one operator"])
        self.refused("bench", *TENSOR, "--html", "/no/such/folder/page.html", words=["/no/such"], exit=ENVIRONMENT)
        self.refused("bench", *TENSOR, "-o", "bench.txt", words=["bench.txt", ".csv"])
        self.refused("bench", *TENSOR, "--save", "/no/such/folder/file.json", words=["/no/such"], exit=ENVIRONMENT)
        self.gradus("bench", "SwiGlu", "x=[2,8]:f32", "dim=5", exit=USAGE)
        self.assertIn("dim", self.stderr)
        for text in ("", "[]", "{}", '{"schema": 3}', '{"schema": "gradus-bench/2"}'):
            (self.directory / "other.json").write_text(text)
            self.refused("bench", *TENSOR, "--baseline", "other.json", words=["other.json", "gradus bench -o"])


if __name__ == "__main__":
    unittest.main()
