"""--json of every command is what docs/schemas says: no key less, none that is not written down."""
import json
import os
import pathlib
import subprocess
import unittest

import numpy as np

from common import BINARY, ENVIRONMENT, MISMATCH, RIGHT, UNSUPPORTED, USAGE, Case

SCHEMAS = pathlib.Path(__file__).parents[2] / "docs" / "schemas"
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
# As much of JSON Schema as the documents use; a word beyond it fails.
KNOWN = {"$schema", "title", "description", "type", "const", "enum", "required", "properties", "additionalProperties",
         "items"}


def is_a(value, name):
    if name in ("integer", "number"):
        return isinstance(value, int if name == "integer" else (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def faults(value, schema, place="$"):
    """What of the value the schema does not allow, as sentences."""
    if not isinstance(schema, dict):
        return [] if schema else [f"{place}: not expected"]
    if unknown := set(schema) - KNOWN:
        return [f"{place}: the schema uses {unknown}"]
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_a(value, name) for name in types):
        return [f"{place}: {value!r}, expected {types}"]
    found = []
    if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        found.append(f"{place}: {value!r}, expected {schema.get('const', schema.get('enum'))}")
    if isinstance(value, dict):
        found += [f"{place}: no {key}" for key in schema.get("required", []) if key not in value]
        for key, inner in value.items():
            rule = schema.get("properties", {}).get(key, schema.get("additionalProperties", False))
            found += faults(inner, rule, f"{place}.{key}")
    if isinstance(value, list):
        for i, inner in enumerate(value):
            found += faults(inner, schema.get("items", True), f"{place}[{i}]")
    return found


class Schemas(Case):
    def expect(self, name, *words, **options):
        value = self.json(*words, **options)
        schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
        self.assertEqual(faults(value, schema)[:5], [], words)
        return value, schema

    def test_every_operator(self):
        self.expect("list", "list")
        for name in self.gradus("list", "--names").split():
            self.expect("describe", "describe", name)
            self.expect("run", "run", name)
        self.expect("run", "run", "SwiGlu", "x=full[2,4],value=nan", "out=y.npy")

    def test_info(self):
        self.expect("info", "info")
        self.expect("info", "info", environment={"GRADUS_MAX_ISA": "sse9"}, exit=USAGE)

    def test_check(self):
        self.expect("check", "check", "SwiGlu", "--quick")
        self.expect("check", "check", "ScaledMaskedSoftmaxBackward", "--quick", exit=UNSUPPORTED,
                    environment={"GRADUS_SOC_NAME": "Ascend910_9391"})
        if os.environ.get("FAULTY"):
            self.expect("check", "check", "ScaledMaskedSoftmaxBackward", "--quick", exit=MISMATCH,
                        environment={"LD_PRELOAD": os.environ["FAULTY"], "FAULT": "sign"})

    def test_diff(self):
        x = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
        nan = x.copy()
        nan[2, 3] = np.nan
        for name, array in (("x", x), ("same", x), ("minus", -x), ("nan", nan), ("zero", 0 * x)):
            np.save(self.path(f"{name}.npy"), array)
        self.expect("diff", "diff", "same.npy", "x.npy", exit=RIGHT)
        self.expect("diff", "diff", "minus.npy", "x.npy", "--rtol", "3", exit=RIGHT)
        self.expect("diff", "diff", "nan.npy", "x.npy", exit=MISMATCH)
        self.expect("diff", "diff", "zero.npy", "x.npy", exit=MISMATCH)
        self.gradus("run", "SwiGlu", "x=x.npy", "dim=-1", "out=y.npy")
        self.expect("diff", "diff", "--op", "SwiGlu", "out=y.npy", "x=x.npy", "dim=-1", exit=RIGHT)
        np.save(self.path("y.npy"), np.load(self.path("y.npy")) * 2)
        self.expect("diff", "diff", "--op", "SwiGlu", "out=y.npy", "x=x.npy", "dim=-1", exit=MISMATCH)

    def test_bench(self):
        self.expect("bench-list", "bench", "--list")
        words = ["bench", "FusedLinearCrossEntropyLossGrad", "BT=32", "V=256", "H=64", "--quick"]
        value, _ = self.expect("bench", *words)
        (self.directory / "b.json").write_text(json.dumps(value))
        for result in value["results"]:
            result["fraction"] = {"q1": 1e-9, "median": 1e-9, "q3": 1e-9}
        (self.directory / "b.json").write_text(json.dumps(value))
        self.expect("bench", *words, "--baseline", "b.json")

    def test_case(self):
        for words in (["SwiGlu", "x=full[2,4],value=nan"], ["NsaSelectedAttentionGrad"]):
            self.gradus("run", *words, "--case", "case")
            value = json.loads((self.directory / "case" / "case.json").read_text(encoding="utf-8"))
            schema = json.loads((SCHEMAS / "case.json").read_text(encoding="utf-8"))
            self.assertEqual(faults(value, schema)[:5], [])

    def test_programs(self):
        """What a program writes is not among the JSON; the tool itself is a program, too."""
        program = ["--", BINARY, "run", "SwiGlu", "x=[4,8]", "out=y.npy"]
        commands = {"trace": ["--limit", "0", "-o", "t.json", "--json"], "sanitize": ["--json"]}
        if not os.environ.get("FAULTY"):  # a compiler's sanitizer would have the same memory
            del commands["sanitize"]
        for name, words in commands.items():
            done = subprocess.run([BINARY, name, *words, *program], capture_output=True, text=True, cwd=self.directory,
                                  timeout=300)
            schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
            self.assertEqual(faults(json.loads(done.stdout), schema)[:5], [], done.stderr)
            self.assertIn("SwiGlu (fast)", done.stderr)

    def test_explain(self):
        for name in ("race", "all"):
            self.expect("explain", "sanitize", "--explain", name)

    def test_errors(self):
        self.expect("error", "rin", exit=USAGE)
        self.expect("error", "run", "SwiGlu", "x=none.npy", exit=USAGE)
        self.expect("error", "run", "SwiGlu", "out=/no/where.npy", exit=ENVIRONMENT)

    def test_the_checker_finds_what_is_wrong(self):
        value, schema = self.expect("list", "list")
        for change in (lambda v: v.pop("schema"), lambda v: v.update(schema="gradus-list/9"),
                       lambda v: v.update(more=1), lambda v: v["operators"][0].update(name=3),
                       lambda v: v["operators"][1].pop("family"), lambda v: v.update(operators={})):
            broken = json.loads(json.dumps(value))
            change(broken)
            self.assertNotEqual(faults(broken, schema), [])


if __name__ == "__main__":
    unittest.main()
