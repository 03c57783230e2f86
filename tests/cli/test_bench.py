"""gradus bench on shapes so small that only the tool is tested, not the machine."""
import json
import re
import unittest
import xml.etree.ElementTree

from common import ENVIRONMENT, USAGE, Case

TENSOR = ("SwiGluGrad", "x=[64,256]:bf16")


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
        self.assertIn("operations a byte", drawing)
        self.assertNotIn("nan", drawing)
        self.assertNotRegex(html, r"(src|href)=['\"]http")

    def test_refusals(self):
        self.refused("bench", "SwiGlu", "--shape", "9", words=["--list"])
        self.refused("bench", "SwiGlu", "--dtype", "f64", words=["f64"])
        self.refused("bench", "SwiGlu", "--threads", "0")
        self.refused("bench", "SwiGlu", "SwiGluGrad", "x=[2,4]", words=["one operator"])
        self.refused("bench", *TENSOR, "--html", "/no/such/folder/page.html", words=["/no/such"], exit=ENVIRONMENT)
        self.refused("bench", *TENSOR, "--save", "/no/such/folder/file.json", words=["/no/such"], exit=ENVIRONMENT)
        self.gradus("bench", "SwiGlu", "x=[2,8]:f32", "dim=5", exit=USAGE)
        self.assertIn("dim", self.stderr)


if __name__ == "__main__":
    unittest.main()
