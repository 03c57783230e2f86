"""The pages: well-formed, self-contained, and said in words what is drawn."""
import html.parser
import os
import subprocess
import unittest

import faults
import numpy as np
from common import BINARY, MISMATCH, RIGHT, Case

VOID = {"meta", "link", "br", "hr", "img"}


class Checker(html.parser.HTMLParser):
    """Every element is closed in order; nothing is loaded; every drawing has a title."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text, self.titles = [], [], [], 0

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        for name, value in attributes:
            assert name not in ("src", "onload", "onclick"), f"<{tag} {name}>"
            assert name != "href" or value.startswith("data:"), value
        if tag not in VOID:
            self.open.append(tag)
        self.titles += tag == "title" and "svg" in self.open

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        self.text.append(data)


class Pages(Case):
    def page(self, got, want, exit):
        np.save(self.path("got.npy"), got)
        np.save(self.path("want.npy"), want)
        self.gradus("diff", "got.npy", "want.npy", "--html", "page.html", exit=exit)
        text = (self.directory / "page.html").read_text(encoding="utf-8")
        self.assertTrue(text.startswith("<!DOCTYPE html>\n<html lang=\"en\">"))
        self.assertNotIn("http", text.replace("http://www.w3.org/2000/svg", ""))
        checker = Checker()
        checker.feed(text)
        checker.close()
        self.assertEqual(checker.open, [])
        self.assertEqual(checker.seen.count("main"), 1)
        self.assertEqual(checker.seen.count("h1"), 1)
        self.assertLess(len(text), 600_000)
        return checker

    def test_names_that_are_no_utf8(self):
        name = os.fsdecode(b"bad\xff\xc3.npy")
        np.save(self.directory / name, np.ones((2, 4), np.float32))
        subprocess.run([BINARY, "diff", name, name, "--html", "page.html"], cwd=self.directory, check=True,
                       stdout=subprocess.DEVNULL)
        text = (self.directory / "page.html").read_bytes().decode("utf-8")
        self.assertIn("bad\ufffd\ufffd.npy", text)

    def test_every_verdict(self):
        want = np.random.default_rng(0).normal(size=(64, 96)).astype(np.float32)
        cases = {"equal": want, "kept": np.nextafter(want, np.float32(9)), "imprecise": faults.stored(faults.rounded(want, "bf16"), "f32"),
                 "wrong": faults.plant("sign_row", want, "f32")}
        for verdict, got in cases.items():
            with self.subTest(verdict=verdict):
                page = self.page(got, want, RIGHT if verdict in ("equal", "kept") else MISMATCH)
                self.assertIn(verdict, page.text)
                drawings = page.seen.count("svg")
                self.assertEqual(drawings, 0 if verdict == "equal" else 4)  # two, for two widths
                self.assertGreaterEqual(page.titles, drawings)

    def test_strange_shapes(self):
        for shape in ((), (1,), (70000,), (1, 1, 5), (3000, 1), (2, 3, 4, 5), (1, 5000)):
            want = np.random.default_rng(1).normal(size=shape).astype(np.float32)
            with self.subTest(shape=shape):
                self.page(np.asarray(want * 3, np.float32), want, MISMATCH)

    def test_not_a_number(self):
        want = np.ones((8, 8), np.float32)
        got = want.copy()
        got[3, 4] = np.nan
        self.assertIn("NaN/Inf", self.page(got, want, MISMATCH).text)

    def test_names_are_escaped(self):
        np.save(self.path("a<b>&.npy"), np.ones(4, np.float32))
        self.gradus("diff", "a<b>&.npy", "a<b>&.npy", "--html", "page.html")
        text = (self.directory / "page.html").read_text(encoding="utf-8")
        self.assertIn("a&lt;b&gt;&amp;.npy", text)
        self.assertNotIn("a<b>", text)


if __name__ == "__main__":
    unittest.main()
