"""Programs with GRADUS_TRACE and under gradus trace; their timelines must be sound and say what happened."""
import copy
import glob
import html.parser
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

from timeline import HARDWARE, OVERLAP, WORK, Timeline, check, end, ns

HELPER, GRADUS, PACKAGE = os.environ["TRACE_HELPER"], os.environ["GRADUS"], os.environ["GRADUS_PACKAGE"]
LIBRARY = os.environ["GRADUS_LIBRARY"]
SOURCE = (pathlib.Path(__file__).parent / "helper.cpp").read_text(encoding="utf-8").splitlines()
LONG = "GRADUS_TEST_LONG" in os.environ
SANITIZED = os.environ.get("SANITIZED", "")  # which handles crashes itself, and must be loaded first


def line_of(words, nth=0):
    """helper.cpp:N of the nth line with these words."""
    return f"helper.cpp:{[i for i, text in enumerate(SOURCE, 1) if words in text][nth]} "


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, *words, exit=0, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("GRADUS_", "ASCEND_"))}
        environment.update(variables)
        done = subprocess.run(list(map(str, words)), cwd=self.folder, env=environment, capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, exit, f"{words}\n{done.stdout}{done.stderr}")
        self.stderr = done.stderr
        return done.stdout

    def trace(self, *words, exit=0, **variables):
        self.output = self.run_program(HELPER, *words, exit=exit, GRADUS_TRACE="t.json", **variables)
        return self.timeline("t.json")

    def timeline(self, name):
        timeline = Timeline(self.folder / name)
        check(timeline)
        return timeline


class Content(Case):
    def test_two_streams_and_an_event(self):
        t = self.trace("ordered")
        names = [e["name"] for e in t.tasks("compute")]
        self.assertEqual(names, ["aclnnSwiGlu", "aclnnSwiGluGrad"] * 3)
        self.assertEqual(t.findings(), [])
        self.assertEqual(len(t.arrows("record")), 3)
        for record, wait in t.arrows("record"):
            self.assertIn("aclrtRecordEvent", [e["name"] for e in t.enclosing(record)])
            self.assertIn("aclrtStreamWaitEvent", [e["name"] for e in t.enclosing(wait)])
        made = [e for e in t.tasks("compute") if e["name"] == "aclnnSwiGlu"]
        used = [e for e in t.tasks("compute") if e["name"] == "aclnnSwiGluGrad"]
        for producer, consumer in zip(made, used):
            self.assertNotEqual(producer["tid"], consumer["tid"])
            self.assertLessEqual(end(producer), ns(consumer["ts"]))
        # every synchronisation that had something to wait for, and the last task before it
        self.assertGreaterEqual(len(t.arrows("sync")), 6)
        for task, call in t.arrows("sync"):
            self.assertRegex([e["name"] for e in t.enclosing(call)][-1], "aclrtSynchronize|aclrtDestroyStream")

    @unittest.skipIf("thread" in SANITIZED, "the thread sanitizer sees the race, too")
    def test_missing_event(self):
        for _ in range(20):  # the machine may be too busy to run the two at the same time
            t = self.trace("missing")
            if t.findings():
                break
        finding = t.findings()[0]
        self.assertRegex(finding["args"]["text"], r"aclnnSwiGluGrad on stream \d (reads yGrad|writes)|"
                                                  r"aclnnSwiGlu on stream \d writes out")
        for words in ("reads yGrad", "writes out", "on stream 1", "on stream 2"):
            self.assertIn(words, finding["args"]["text"])
        a, b = [next(e for e in t.tasks() if e["args"]["Task Id"] == number) for number in finding["args"]["tasks"]]
        self.assertEqual({a["name"], b["name"]}, {"aclnnSwiGlu", "aclnnSwiGluGrad"})
        self.assertTrue(ns(a["ts"]) < end(b) and ns(b["ts"]) < end(a))
        self.assertEqual(t.arrows("record"), [])

    def test_arguments(self):
        t = self.trace("ordered", GRADUS_TRACE_LIMIT="12.5")
        grad = next(e for e in t.tasks("compute") if e["name"] == "aclnnSwiGluGrad")["args"]
        self.assertEqual(grad["inputs"], "yGrad[4096,1024]:f32 x[4096,2048]:f32")
        self.assertEqual(grad["outputs"], "out[4096,2048]:f32")
        self.assertEqual(grad["bytes"], 4 * 4096 * (1024 + 2048 + 2048))
        self.assertEqual(grad["workspace"], 0)
        self.assertNotEqual(grad["path"], "")
        self.assertAlmostEqual(grad["share of the memory limit"], grad["GB/s"] / 12.5, delta=1e-3)
        self.assertIn(line_of("CHECK(aclnnSwiGluGrad(nullptr"), grad["site"])
        (copied,) = t.tasks("copy")
        self.assertEqual((copied["args"]["path"], copied["args"]["bytes"]), ("device to device", 2 * 4 * 4096 * 2048))
        self.assertIn(line_of("aclrtMemcpyAsync("), copied["args"]["site"])
        for name, words in (("aclnnSwiGluGetWorkspaceSize", "CHECK(aclnnSwiGluGetWorkspaceSize("),
                            ("aclInit", "CHECK(aclInit("), ("aclrtSynchronizeDevice", "CHECK(aclrtSynchronizeDevice(")):
            self.assertIn(line_of(words), t.calls(name)[0]["args"]["site"])
        self.assertEqual(t.document["otherData"]["program"], f"{HELPER} ordered")

    def test_everything_has_its_row(self):
        t = self.trace("all")
        self.assertIn('my "worker"', t.rows.values())
        devices = {e["pid"] for e in t.of["M"] if e["name"] == "process_labels" and e["args"]["labels"].startswith("NPU")}
        self.assertEqual(len(devices), 4, "two devices, with two groups each")
        streams = {row for row in t.rows if t.groups[row[0]] == HARDWARE}
        self.assertEqual(len(streams), 4)
        self.assertEqual({e["pid"] for e in t.in_group(HARDWARE)[sorted(streams)[-1]]}, {max(t.groups) - 1})
        self.assertEqual([e["name"] for e in t.tasks("callback")], ["aclrtLaunchHostFunc"])
        counted = {}
        for event in t.of["C"]:
            if event["name"] == "device bytes":
                counted[event["pid"]] = event["args"]["bytes"]
        self.assertEqual(set(counted.values()), {0}, "all is freed in the end")

    def test_memory_without_work(self):
        t = self.trace("memory")
        self.assertEqual(t.tasks(), [])
        self.assertEqual({t.groups[e["pid"]] for e in t.of["C"]}, {HARDWARE})

    def test_collectives(self):
        t = self.trace("ranks")
        self.assertEqual(t.findings(), [])
        talks = t.tasks("communication")
        self.assertEqual([(e["name"], e["args"]["Task Type"]) for e in talks], [("HcclAllReduce", "COMMUNICATION")] * 2)
        self.assertEqual(len({e["pid"] for e in talks}), 2)
        for talk in talks:
            self.assertIn(line_of("CHECK(HcclAllReduce("), talk["args"]["site"])
            self.assertEqual(talk["args"]["bytes"], 2 * 4 * 512 * 2048)
        drawn = [t.rows[row] for row, spans in t.in_group(OVERLAP).items() if spans]
        self.assertEqual((drawn.count("Communication"), drawn.count("Communication(Not Overlapped)")), (2, 2))
        self.assertEqual([r["Task Type"] for r in t.table("op_summary") if r["Op Name"] == "HcclAllReduce"],
                         ["COMMUNICATION"] * 2)

    def test_tables(self):
        t = self.trace("all")
        rows = t.table("op_summary")
        self.assertEqual([(r["Op Name"], int(r["Task ID"]), float(r["Task Duration(us)"])) for r in rows],
                         [(e["name"], e["args"]["Task Id"], e["dur"]) for e in t.tasks(*WORK)])
        grad = next(r for r in rows if r["OP Type"] == "SwiGluGrad")
        self.assertEqual((grad["Input Shapes"], grad["Input Data Types"], grad["Output Shapes"]),
                         ("256,1024;256,2048", "FLOAT;FLOAT", "256,2048"))
        functions = {r["API Name"]: r for r in t.table("api_statistic")}
        self.assertEqual({name: int(r["Count"]) for name, r in functions.items()},
                         {name: len(t.calls(name)) for name in {e["name"] for e in t.calls()}})
        for name, r in functions.items():
            durations = [e["dur"] for e in t.calls(name)]
            self.assertAlmostEqual(float(r["Time(us)"]), sum(durations), delta=.002 * len(durations))
            self.assertEqual((float(r["Min(us)"]), float(r["Max(us)"])), (min(durations), max(durations)))


class Ends(Case):
    """However a program ends, the file is there and whole."""

    def test_unfinished_work(self):
        codes = {"exit": 3, "quick_exit": 3, "_exit": 3, "abort": -signal.SIGABRT, "terminate": -signal.SIGTERM,
                 "crash": -signal.SIGSEGV}
        if SANITIZED:
            del codes["crash"]
        for way, code in codes.items():
            with self.subTest(way=way):
                t = self.trace(way, exit=code)
                self.assertEqual([e["name"] for e in t.tasks("compute")], ["aclnnSwiGlu"])
                never = [e for e in t.of["i"] if e["cat"] == "never ran"]
                self.assertEqual([e["name"] for e in never], ["aclrtStreamWaitEvent", "aclnnSwiGlu"])
                self.assertEqual([e["args"]["code"] for e in t.calls("aclrtFree")], [107000])
                self.assertEqual(list(self.folder.glob("*.part")), [])

    @unittest.skipIf(SANITIZED, "a compiler's sanitizer does not survive a fork between threads")
    def test_fork(self):
        for way in ("fork", "fork_finalize"):
            with self.subTest(way=way):
                parent = self.trace(way)
                child = self.timeline(f"t.{self.output.strip()}.json")
                self.assertEqual(parent.tasks("compute"), [])
                self.assertEqual(len(child.tasks("compute")), 6)
                self.assertFalse(set(parent.groups) & set(child.groups), "their rows would mix in one file")
                self.assertFalse({e["id"] for e in parent.of["s"]} & {e["id"] for e in child.of["s"]})
                self.assertEqual(child.calls("aclInit"), [])

    def test_directory_and_name(self):
        self.trace("chdir")
        self.run_program(HELPER, "chdir", GRADUS_TRACE=str(self.folder / "%p-%p.json"))
        (name,) = glob.glob("*-*.json", root_dir=self.folder)
        self.assertRegex(name, r"^(\d+)-\1\.json$")
        self.run_program(HELPER, "chdir", GRADUS_TRACE="/no/such/folder/t.json")
        self.assertRegex(self.stderr, r"^gradus: GRADUS_TRACE: cannot write '/no/such/folder/t.json': No such file")
        self.run_program(HELPER, "chdir", GRADUS_TRACE="")
        self.assertEqual(self.stderr, "")

    @unittest.skipUnless(LONG, "writes 400 MB")
    def test_more_than_there_is_room_for(self):
        self.run_program(HELPER, "many", 600_000, GRADUS_TRACE="t.json")
        with open(self.folder / "t.json", encoding="utf-8") as file:
            head = json.loads(file.readline().rstrip().removesuffix('"traceEvents":[').rstrip(",") + "}")["otherData"]
            calls = sum('"cat":"call"' in line for line in file)
        self.assertEqual(calls, 1 << 20)
        self.assertGreater(head["calls lost"], 600_000)
        self.assertGreater(head["tasks lost"], 0)


@unittest.skipIf(SANITIZED, "not in a program that was built without it")
class Python(Case):
    def test_numpy(self):
        program = textwrap.dedent("""
            import numpy as np, gradus, os, sys
            x = np.ones((64, 128), np.float32)
            for _ in range(3):
                gradus.swi_glu(x)
            if sys.argv[1] == "fork" and os.fork() == 0:
                gradus.swi_glu(x)
                sys.exit(0)
            if sys.argv[1] == "fork":
                os.wait()
        """)
        home = {"PYTHONPATH": PACKAGE, "GRADUS_HOME": str(pathlib.Path(LIBRARY).parent), "GRADUS_TRACE": "t.json"}
        for way, files in (("plain", 1), ("fork", 2)):
            self.run_program(sys.executable, "-c", program, way, **home)
            t = self.timeline("t.json")
            runs = [e for e in t.of["X"] if e["cat"] == "compute"]
            self.assertEqual([e["name"] for e in runs], ["aclnnSwiGlu"] * 3)
            self.assertEqual(runs[0]["args"]["inputs"], "x[64,128]:f32")
            self.assertEqual(len(t.calls("aclnnSwiGlu")), 3)
            self.assertEqual([r["Task Type"] for r in t.table("op_summary")], ["HOST"] * 3)
            self.assertEqual(len(list(self.folder.glob("t*.json"))), files)

    def test_loaded_late(self):
        program = f"import ctypes; c = ctypes.CDLL({LIBRARY!r}); assert c.aclInit(None) == 0 and c.aclFinalize() == 0"
        self.run_program(sys.executable, "-c", program, GRADUS_TRACE="t.json")
        self.assertEqual([e["name"] for e in self.timeline("t.json").calls()], ["aclInit", "aclFinalize"])


class PageChecker(html.parser.HTMLParser):
    """Closed in order, and nothing is loaded."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        for name, value in attributes:
            assert name not in ("src", "onload", "onclick") and (name != "href" or value.startswith("data:")), (tag, name)
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data


class Tool(Case):
    def gradus(self, *words, **options):
        return self.run_program(GRADUS, "trace", "--limit", 20, *words, **options)

    def test_files_and_page(self):
        self.gradus("-o", "a.json", "--page", "a.html", "--", HELPER, "all")
        t = self.timeline("a.json")
        self.assertEqual({p.name for p in self.folder.iterdir()},
                         {"a.json", "a.html", "op_summary_a.csv", "api_statistic_a.csv"})
        self.assertEqual(len(t.table("op_summary")), len(t.tasks(*WORK)))
        self.assertEqual(t.document["otherData"]["memory limit GB/s"], 20)
        self.assertIn("aclnnSwiGluGrad", self.stderr)
        text = (self.folder / "a.html").read_text(encoding="utf-8")
        self.assertNotRegex(text, r"https?:")
        page = PageChecker(text)
        self.assertEqual((page.seen.count("canvas"), page.seen.count("table")), (1, 2))
        for words in ("aclnnSwiGluGrad", "Computing", "aclrtSynchronizeStream", f"{HELPER} all"):
            self.assertIn(words, page.text)
        data = json.loads(re.search(r'id="trace-data">(.*?)</script>', text, re.S)[1])
        drawn = {(row["group"], row["name"]): len(row["events"]) // 5 for row in data["rows"]}
        self.assertEqual(sum(drawn.values()), len(t.of["X"]))
        self.assertEqual(drawn["Ascend Hardware, NPU 1", "Stream 4"], 1)
        self.assertEqual({kind: len(flat) // 4 for kind, flat in data["arrows"].items()},
                         {kind: len(t.arrows(kind)) for kind in ("launch", "record", "sync")})

    def test_summary(self):
        for program in ("all", "ranks"):
            with self.subTest(program=program):
                self.check_summary(program)

    def check_summary(self, program):
        out = json.loads(self.gradus("--json", "--", HELPER, program))
        t = self.timeline("trace.json")
        self.assertEqual(out["schema"], "gradus-trace/1")
        for row in out["operators"]:
            took = sorted(ns(e["dur"]) for e in t.tasks(*WORK) if e["name"] == row["operator"])
            self.assertEqual((row["calls"], row["total_ns"], row["median_ns"]), (len(took), sum(took), took[len(took) // 2]))
        self.assertAlmostEqual(sum(row["share"] for row in out["operators"]), 1)
        self.assertEqual("HcclAllReduce" in [row["operator"] for row in out["operators"]], program == "ranks")
        for shares in out["overlap"].values():
            self.assertEqual("Communication" in shares, program == "ranks")

    @unittest.skipIf(SANITIZED, "a compiler's sanitizer does not survive a fork between threads")
    def test_several_processes(self):
        self.gradus("--page", "p.html", "--", HELPER, "fork")
        t = self.timeline("trace.json")
        self.assertEqual(list(t.groups.values()).count("CANN"), 2)
        self.assertEqual(len({r["Process"] for r in t.table("api_statistic")}), 2)
        self.assertIn(", process ", (self.folder / "p.html").read_text(encoding="utf-8"))

    def test_exit_codes_and_refusals(self):
        self.gradus("--", HELPER, "exit", exit=3)
        if not SANITIZED:
            self.gradus("--", HELPER, "crash", exit=128 + signal.SIGSEGV)
        self.timeline("trace.json")
        self.gradus("--", "true", exit=4)
        self.assertIn("true has called nothing of the library", self.stderr)
        self.gradus("--", "false", exit=1)
        self.gradus("--", "/no/such/program", exit=2)
        self.gradus(exit=2)
        (self.folder / "no.json").write_text('{"traceEvents":[]}\n')
        self.gradus("--from", "no.json", exit=2)
        self.assertIn("not a trace that gradus has written", self.stderr)
        self.assertEqual([p for p in self.folder.iterdir() if p.name.startswith(".")], [])

    def test_from_a_file(self):
        self.trace("all")
        self.gradus("--from", "t.json", "--page", "t.html")
        PageChecker((self.folder / "t.html").read_text(encoding="utf-8"))

    @unittest.skipIf(SANITIZED, "not in a program that was built without it")
    def test_words_of_the_program(self):
        program = "import sys, ctypes; ctypes.CDLL(sys.argv[1]).aclInit(None); print(sys.argv[2:])"
        out = self.gradus("--", sys.executable, "-c", program, LIBRARY, "--json", "--page=x", "</script><b>")
        self.assertEqual(out.strip(), "['--json', '--page=x', '</script><b>']")
        self.gradus("--from", "trace.json", "--page", "p.html")
        text = (self.folder / "p.html").read_text(encoding="utf-8")
        self.assertNotIn("<b>'", text)
        PageChecker(text)


class Faults(Case):
    """The checks above notice what they are for."""

    def broken(self, change):
        t = copy.deepcopy(self.sound)
        change(t)
        t.sort()
        with self.assertRaises((AssertionError, KeyError)):
            check(t)

    def test_planted(self):
        self.sound = self.trace("ordered")

        def remove(t, fits):
            t.events.remove(next(e for e in t.events if fits(e)))

        def move(t, fits, by, key="ts"):
            next(e for e in t.events if fits(e))[key] += by

        def reach_into_the_next(t):
            first, second = t.calls()[3:5]
            changed = next(e for e in t.events if e == first)
            changed["dur"] = second["ts"] + second["dur"] / 2 - first["ts"]

        is_task = lambda e: e["ph"] == "X" and "Task Id" in e["args"]
        computing = lambda e: is_task(e) and e["cat"] == "compute"
        for change in (
            lambda t: remove(t, lambda e: e["ph"] == "s" and e["cat"] == "launch"),
            lambda t: remove(t, lambda e: e["ph"] == "f" and e["cat"] == "record"),
            lambda t: [remove(t, lambda e: e["ph"] == p and e["id"].endswith("launch.1")) for p in "sf"],
            lambda t: move(t, lambda e: e["ph"] == "f" and e["cat"] == "sync", -1e5),
            lambda t: move(t, lambda e: e["ph"] == "s" and e["cat"] == "launch", -1e7),
            lambda t: move(t, computing, 1e6, "dur"),
            lambda t: move(t, computing, .5, "dur"),
            lambda t: move(t, is_task, -1e5),
            reach_into_the_next,
            lambda t: remove(t, lambda e: e["ph"] == "M" and e["args"].get("name") == "Stream 2"),
            lambda t: remove(t, lambda e: e["ph"] == "X" and e["name"] == "Computing"),
            lambda t: move(t, lambda e: e["ph"] == "X" and e["name"] == "Free", 1, "dur"),
            lambda t: remove(t, computing),
            lambda t: next(e for e in t.events if computing(e))["args"].update({"Stream Id": 9}),
            lambda t: next(e for e in t.events if e["ph"] == "C" and e["name"] == "queue depth")["args"].update(tasks=7),
        ):
            self.broken(change)


if __name__ == "__main__":
    unittest.main()
