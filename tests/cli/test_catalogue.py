"""list, describe, info, --help, and the words that are not known."""
import pathlib
import re
import unittest

from common import BINARY, ENVIRONMENT, UNSUPPORTED, USAGE, Case


def commands(help_text):
    return re.findall(r"^  (\w+) ", help_text.split("Subcommands:")[1].split("\n\n")[0], re.M)


class Known(Case):
    def test_list(self):
        text = self.gradus("list")
        names = self.gradus("list", "--names").split()
        listed = self.json("list")
        self.assertEqual(listed["schema"], "gradus-list/1")
        self.assertEqual([op["name"] for op in listed["operators"]], names)
        self.assertIn("SwiGluGrad", names)
        for name in names:
            self.assertIn(name, text)
        self.assertIn("yGrad=", self.gradus("list", "--names", "SwiGluGrad").split())

    def test_describe_every_operator(self):
        for name in self.gradus("list", "--names").split():
            text = self.gradus("describe", name)
            described = self.json("describe", "aclnn" + name)
            self.assertEqual(described["schema"], "gradus-describe/1")
            self.assertIn(described["operator"]["formula"], text)
            for argument in described["operator"]["arguments"]:
                self.assertIn(argument["name"], text)
            for word in ("161002", "Ascend910B", "LIMITS"):
                self.assertIn(word, text)

    def test_every_operator_runs_from_its_name_alone(self):
        for name in self.gradus("list", "--names").split():
            ran = self.json("run", name)
            self.assertEqual(ran["schema"], "gradus-run/1")
            for output in ran["outputs"].values():
                self.assertEqual(output["nan"], 0, name)

    def test_help_has_examples(self):
        for command in commands(self.gradus("--help")):
            with self.subTest(command):
                text = self.gradus(command, "--help")
                self.assertRegex(text, rf"Examples:\n  (\w+=\S+ )?gradus {command}")
                self.assertIn("--json", text)

    def test_man_page(self):
        page = pathlib.Path(BINARY).with_name("gradus.1").read_text().replace("\\-", "-")
        for command in commands(self.gradus("--help")):
            self.assertIn(f".SS gradus {command}\n", page)
            for option in re.findall(r"(?m)^  (?:-\w,)?(--[a-z-]+)", self.gradus(command, "--help")):
                self.assertIn(option, page, command)
        for word in ("NO_COLOR", "GRADUS_LIMITS", "EXIT STATUS"):
            self.assertIn(word, page)

    def test_version(self):
        self.assertRegex(self.gradus("--version"), r"^gradus \d+\.\d+\.\d+\n$")


class Info(Case):
    def test_text_and_json(self):
        text = self.gradus("info")
        info = self.json("info")
        self.assertEqual(info["schema"], "gradus-info/1")
        self.assertEqual(info["library_version"], info["header_version"])
        self.assertEqual(info["options"]["limits"], {"value": "on", "from": "default"})
        self.assertIn("scalar", info["instruction_sets"])
        self.assertEqual({op["operator"] for op in info["operators"]}, set(self.gradus("list", "--names").split()))
        for op in info["operators"]:
            self.assertIn(op["path"].split(",")[0], info["instruction_sets"])
            self.assertTrue(op["reason"])
        self.assertIn(info["cpu"], text)

    def test_options_and_their_origin(self):
        info = self.json("info", environment={"GRADUS_MAX_ISA": "scalar", "GRADUS_NUM_THREADS": "1"})
        self.assertEqual(info["threads"], 1)
        self.assertEqual(info["options"]["max_isa"], {"value": "scalar", "from": "environment"})
        self.assertEqual({op["path"] for op in info["operators"]}, {"scalar"})
        golden = self.json("info", environment={"GRADUS_PRECISION": "golden"})
        self.assertEqual({op["path"] for op in golden["operators"]}, {"golden"})
        magnitude = self.json("info", environment={"GRADUS_PRECISION": "magnitude"})
        self.assertEqual({op["path"] for op in magnitude["operators"]}, {"magnitude"})

    def test_product_without_the_operator(self):
        info = self.json("info", environment={"GRADUS_SOC_NAME": "Ascend310P3"})
        paths = {op["operator"]: op["path"] for op in info["operators"]}
        self.assertEqual(paths["ExpSegsum"], "none")

    def test_a_wrong_variable_is_shown(self):
        wrong = {"GRADUS_MAX_ISA": "sse9", "GRADUS_NUM_THREADS": "2"}
        self.assertRegex(self.gradus("info", environment=wrong, exit=USAGE), r"^GRADUS_MAX_ISA=sse9: .*scalar")
        problem, = self.json("info", environment=wrong, exit=USAGE)["problems"]
        self.assertIn("sse9", problem)
        self.assertEqual(self.json("info")["problems"], [])

    def test_real_cann(self):
        (self.directory / "cann/lib64").mkdir(parents=True)
        home = {"ASCEND_HOME_PATH": self.path("cann")}
        self.assertIn(self.path("cann"), self.json("info", environment=home)["real_cann"])
        # A prefix of ours is no other CANN.
        (self.directory / "libgradus.so.0").touch()
        (self.directory / "cann/lib64/libascendcl.so").symlink_to(self.directory / "libgradus.so.0")
        self.assertNotIn(self.path("cann"), self.json("info", environment=home)["real_cann"])


class Unknown(Case):
    def test_words(self):
        for arguments, words in (
            (["rin"], ["unknown command 'rin'", "did you mean run?"]),
            (["run", "SwiGlo"], ["unknown operator 'SwiGlo'", "did you mean SwiGlu?", "gradus list"]),
            (["describe", "qqqqqqqq"], ["unknown operator 'qqqqqqqq'", "gradus list"]),
            (["run", "SwiGlu", "--repaet", "3"], ["unknown option --repaet", "did you mean --repeat?"]),
            (["run", "SwiGluGrad", "yGrat=[2]"], ["yGrat: no argument of SwiGluGrad", "did you mean yGrad?"]),
            (["run", "SwiGlu", "x"], ["'x', expected name=value"]),
            (["run"], ["OP is required"]),
            (["run", "SwiGlu", "--repeat", "0"], ["--repeat"]),
            (["run", "SwiGlu", "--precision", "silver"], ["silver", "{fast,golden,magnitude,"]),
            (["run", "SwiGlu", "--limits", "maybe"], ["maybe", "{on,off}"]),
            (["run", "SwiGlu", "--isa", "sse9"], ["sse9", "scalar"]),
            (["run", "SwiGlu", "--threads", "0"], ["--threads", "1 to"]),
            (["run", "SwiGlu", "--threads", "1025"], ["--threads", "1 to 1024"]),
            (["run", "SwiGlu", "out="], ["out: nothing behind the ="]),
            (["run", "SwiGlu", "x="], ["x: nothing behind the ="]),
        ):
            with self.subTest(arguments):
                message = self.refused(*arguments, words=words)
                self.assertEqual(message.count("\n"), 1)

    def test_no_command_is_help_and_a_usage_error(self):
        self.gradus(exit=USAGE)
        self.assertIn("Subcommands:", self.stderr)

    def test_as_json(self):
        error = self.json("run", "SwiGlo", exit=USAGE)
        self.assertEqual(error["schema"], "gradus-error/1")
        self.assertEqual(error["exit"], USAGE)
        self.assertIn("SwiGlu", error["error"])

    def test_unsupported_product(self):
        self.refused("run", "ExpSegsum", exit=UNSUPPORTED, words=["Ascend310P"],
                     environment={"GRADUS_SOC_NAME": "Ascend310P3"})

    def test_environment(self):
        self.refused("run", "SwiGlu", "x=zeros[1000000,1000000]", exit=ENVIRONMENT, words=["x: ", "GB"])
        self.refused("run", "SwiGlu", "out=/nowhere/out.npy", exit=ENVIRONMENT, words=["/nowhere/out.npy"])

    def test_no_escapes_into_a_pipe(self):
        self.assertNotIn("\x1b", self.gradus("list", environment={"TERM": "xterm-256color"}))


if __name__ == "__main__":
    unittest.main()
