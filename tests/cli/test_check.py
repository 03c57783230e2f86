"""gradus check: right here, and not right where a fault is planted."""
import os
import shlex
import unittest

from common import MISMATCH, UNSUPPORTED, Case

FAULTY = "ScaledMaskedSoftmaxBackward"


class Right(Case):
    def test_everything_keeps_its_promise(self):
        names = self.gradus("list", "--names").split()
        found = self.json("check", "--quick")
        self.assertEqual(found["schema"], "gradus-check/1")
        self.assertTrue(found["pass"])
        self.assertEqual([op["operator"] for op in found["operators"]], names)
        for op in found["operators"]:
            self.assertGreater(op["runs"], 3)
            self.assertEqual(op["faults"], [])
            self.assertEqual(op["verdicts"]["wrong"] + op["verdicts"]["imprecise"], 0)

    def test_every_instruction_set(self):
        text = self.gradus("check", "SwiGlu", "--seed", "7")
        self.assertRegex(text, r"SwiGlu +\d+ +right")
        self.assertIn("scalar", text)
        self.assertNotIn("SwiGluGrad", text)
        self.assertIn("SwiGluGrad", self.gradus("check", "--isa", "scalar", "swi", "--quick"))

    def test_arguments_of_ones_own(self):
        found = self.json("check", "aclnnSwiGluGrad", "x=[5,24]", "dim=1")
        runs = {op["operator"]: op["runs"] for op in found["operators"]}
        self.assertEqual(runs, {"SwiGluGrad": 3 * 2 * len(found["isas"])})
        self.assertEqual(self.json("check", "SwiGluGrad", "x=[5,24]:f16", "--quick")["operators"][0]["runs"], 1)

    def test_refusals(self):
        self.refused("check", "SwiGlo", words=["SwiGlo", "SwiGlu"])
        self.refused("check", "", words=["unknown operator ''"])  # a variable that is not set
        self.refused("check", "SwiGlu", "SwiGluGrad", "x=[5,24]", words=["x=[5,24]", "one operator"])
        self.refused("check", "SwiGlu", "--isa", "abacus", words=["abacus", "scalar"])
        self.assertIn("Examples", self.gradus("check", "--help"))

    def test_a_product_without_the_operator(self):
        product = {"GRADUS_SOC_NAME": "Ascend910_9391"}
        text = self.gradus("check", FAULTY, "--quick", exit=UNSUPPORTED, environment=product)
        self.assertIn("unsupported", text)
        found = self.json("check", FAULTY, "ExpSegsum", "--quick", environment=product)
        self.assertIn("910_93", found["operators"][0]["unsupported"])


@unittest.skipUnless(os.environ.get("FAULTY"), "no library to preload in a build with sanitizers")
class Wrong(Case):
    @staticmethod
    def faulty(fault):
        return {"environment": {"LD_PRELOAD": os.environ["FAULTY"], "FAULT": fault}, "exit": MISMATCH}

    def test_a_sign(self):
        text = self.gradus("check", FAULTY, "SwiGlu", "--quick", **self.faulty("sign"))
        self.assertRegex(text, rf"{FAULTY} +\d+ +\d+ faults")
        self.assertRegex(text, r"SwiGlu +\d+ +right")
        self.assertIn("1 of them wrong", text)
        again = next(line for line in text.splitlines() if line.startswith("  gradus check"))
        words = shlex.split(again)[1:]
        self.assertIn("wrong", self.gradus(*words, **self.faulty("sign")))
        self.gradus(*words)  # and without the fault it is right

    def test_bits_that_depend_on_threads(self):
        found = self.json("check", FAULTY, **self.faulty("threads"))
        self.assertFalse(found["pass"])
        verdicts = {fault["verdict"] for fault in found["operators"][0]["faults"]}
        self.assertEqual(verdicts, {"unsteady"})

    def test_a_refusal_is_a_fault(self):
        found = self.json("check", FAULTY, "--quick", **self.faulty("refuse"))
        self.assertEqual({fault["verdict"] for fault in found["operators"][0]["faults"]}, {"failed"})


if __name__ == "__main__":
    unittest.main()
