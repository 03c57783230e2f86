"""A case is one thing: gradus run --case makes it, gradus diff --case needs nothing else."""
import json
import os
import subprocess
import unittest

import numpy as np

from common import BINARY, MISMATCH, USAGE, Case


class Cases(Case):
    def made(self, *words, directory="case"):
        self.gradus("run", *words, "--case", directory, "-o", "results")
        return json.loads((self.directory / directory / "case.json").read_text(encoding="utf-8"))

    def test_says_all_of_the_call(self):
        case = self.made("ScaledMaskedSoftmax", "B=1", "H=2", "S=3", "N=5", "mask=[1,1,3,5]", "scale=0.5", "seed=9")
        self.assertEqual(case["seed"], 9)
        self.assertEqual(case["limits"], "on")
        self.assertEqual(case["attributes"]["scale"], 0.5)
        self.assertEqual(sorted(case["inputs"]), ["mask", "x"])
        self.assertEqual(case["outputs"], {"y": {"dtype": "f32", "shape": [1, 2, 3, 5]}})
        self.assertEqual(self.made("SwiGlu", "x=[4,8]", "--seed", "3")["seed"], 3)
        self.assertEqual(self.made("SwiGlu", "x=[4,8]")["seed"], 0)

    def test_beyond_the_limits_of_the_device(self):
        words = ["FusedLinearCrossEntropyLossGrad", "BT=4", "V=20", "H=8", "dtype=bf16"]
        self.refused("run", *words, "--case", "case", words=["a limit of the device"])
        self.assertEqual(self.made(*words, "--limits", "off")["limits"], "off")
        results = ["inputGradOut=results/inputGradOut.npy", "weightGradOut=results/weightGradOut.npy"]
        self.gradus("diff", "--case", "case", *results)
        got = np.load(self.path("results/inputGradOut.npy"))
        got[0, 0] = got[0, 1]
        np.save(self.path("results/inputGradOut.npy"), got)
        report = self.json("diff", "--case", "case", *results, exit=MISMATCH)
        self.assertEqual([output["verdict"] for output in report["outputs"]][0], "wrong")

    def test_names_that_are_hard(self):
        for directory in ("a b", "a:bf16", "a,b[0:2]", "a=b", "é", os.fsdecode(b"\xff")):
            with self.subTest(directory):
                np.save(self.path("x.npy"), np.ones((4, 8), np.float32))
                os.makedirs(self.path(directory), exist_ok=True)
                os.replace(self.path("x.npy"), self.directory / directory / "x.npy")
                self.gradus("run", "SwiGlu", f"x={directory}/x.npy", "--case", directory + "/c", "-o", "results")
                done = subprocess.run([BINARY, "diff", "--case", directory + "/c", "out=results/out.npy", "--json"],
                                      capture_output=True, cwd=self.directory)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(json.loads(done.stdout)["pass"])
                json.loads((self.directory / directory / "c" / "case.json").read_bytes())

    def test_what_is_no_case(self):
        case = self.made("SwiGlu", "x=[4,8]")
        for wrong in ("", "[]", "{}", json.dumps({**case, "schema": 3}), json.dumps({**case, "schema": "other"}),
                      json.dumps({**case, "operator": 3}), json.dumps({**case, "operator": "SwiGul"}),
                      json.dumps({**case, "inputs": []}), json.dumps({**case, "inputs": {"x": {"file": "x.npy"}}}),
                      json.dumps({**case, "limits": 1}), json.dumps({**case, "attributes": {"dim": "a"}})):
            with self.subTest(wrong[:40]):
                (self.directory / "case" / "case.json").write_text(wrong)
                self.refused("diff", "--case", "case", "out=results/out.npy")
        self.refused("diff", "--case", "nowhere", "out=results/out.npy", words=["gradus run OP", "nowhere/case.json"])

    def test_an_output_once(self):
        self.made("SwiGlu", "x=[4,8]")
        self.refused("diff", "--case", "case", "out=results/out.npy", "results/out.npy", words=["out: given twice"])

    def test_where_its_arguments_came_from(self):
        np.save(self.path("g.npy"), np.ones((4, 4), np.float32))
        for words, want in ((["SwiGlu", "x=[4,8]"], {"x": "made up: randn, seed 0 (case/x.npy)", "dim": "default"}),
                            (["SwiGluGrad", "yGrad=g.npy", "x=randn[4,8],seed=3", "dim=1"],
                             {"yGrad": "file g.npy (case/yGrad.npy)", "x": "made up: randn, seed 3 (case/x.npy)",
                              "dim": "given"})):
            self.made(*words)
            report = self.json("diff", "--case", "case", "out=results/out.npy")
            self.assertEqual(report["arguments"], want)
        self.made("SwiGlu", "x=[4,8]")
        path = self.directory / "case" / "case.json"
        case = json.loads(path.read_text(encoding="utf-8"))
        del case["origins"]
        path.write_text(json.dumps(case))
        report = self.json("diff", "--case", "case", "out=results/out.npy")
        self.assertEqual(report["arguments"], {"x": "file case/x.npy", "dim": "given"})

    def test_seeds(self):
        for word in ("seed=-1", "x=randn[4,8],seed=-1"):
            words = [word] if word.startswith("x=") else ["x=[4,8]", word]
            self.refused("run", "SwiGlu", *words, words=["seed", "from 0 up"], exit=USAGE)


if __name__ == "__main__":
    unittest.main()
