"""gradus sanitize, as a user calls it."""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
GRADUS, PLANTED, CORRECT, VARIOUS = (os.environ[name] for name in ("GRADUS", "PLANTED", "CORRECT", "VARIOUS"))
SANITIZED = os.environ.get("SANITIZED", "")  # by the compiler


def sanitize(*words, environment=None):
    return subprocess.run([GRADUS, "sanitize", *words], capture_output=True, text=True, timeout=100,
                          env=dict(os.environ, **(environment or {})))


def sources(folder):
    return "".join(path.read_text() for path in pathlib.Path(HERE, folder).glob("*.cpp"))


class Command(unittest.TestCase):
    def test_exit_codes(self):
        self.assertEqual(sanitize("--", PLANTED, "no_event_between").returncode, 1)
        self.assertEqual(sanitize("--error-exitcode", "42", "--", PLANTED, "no_event_between").returncode, 42)
        self.assertEqual(sanitize("--", PLANTED, "no_event_between", "mended").returncode, 0)
        self.assertEqual(sanitize("--", PLANTED, "executor_left").returncode, 0)  # a leak is a warning
        self.assertEqual(sanitize("--", PLANTED, "no_such_program").returncode, 98)  # the program's own
        self.assertEqual(sanitize("--", "/no/such/file").returncode, 127)
        self.assertEqual(sanitize("--", "sh", "-c", "kill -9 $$").returncode, 128 + 9)
        self.assertEqual(sanitize().returncode, 2)

    def test_report_names_the_missing_calls(self):
        report = sanitize("--", PLANTED, "no_event_between").stderr
        self.assertRegex(report, r"error race \(read after write\) #1\n  aclnnSwiGlu, launch 2 on stream 2, reads x")
        self.assertRegex(report, r"fix: after \S+ aclrtRecordEvent\(e, stream 1\), before \S+ aclrtStreamWaitEvent")
        self.assertIn("gradus sanitize: 1 error, 0 warnings", report)

    def test_json(self):
        document = json.loads(sanitize("--json", "--", PLANTED, "input_never_written").stdout)
        self.assertEqual([f["id"] for f in document["findings"]], ["uninitialised"])
        self.assertEqual((document["exit"], document["program_exit"]), (1, 0))
        # behind -- it is the program's word
        self.assertEqual(sanitize("--", "echo", "--json").stdout, "--json\n")
        with tempfile.TemporaryDirectory() as folder:
            lines = os.path.join(folder, "found.jsonl")
            self.assertEqual(sanitize("--json", lines, "--", PLANTED, "input_never_written").stdout, "")
            with open(lines) as file:
                self.assertEqual([json.loads(line)["id"] for line in file], ["uninitialised"])
        # never into the program
        self.assertEqual(sanitize("--json", PLANTED, "input_never_written").returncode, 2)

    def test_fix_names_places_that_differ(self):
        fix = re.search(r"fix: after (\S+) .* before (\S+) ", sanitize("--", PLANTED, "no_event_between").stderr)
        self.assertNotEqual(fix.group(1), fix.group(2))  # both launches are in one line of world.h

    def test_findings_in_a_timeline(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "trace.json")
            settings = {"GRADUS_TRACE": trace, "GRADUS_SANITIZE": "on,log=/dev/null"}
            subprocess.run([PLANTED, "no_event_between"], env=dict(os.environ, **settings), timeout=100, check=True)
            with open(trace) as file:
                events = json.load(file)["traceEvents"]
        text, = [e["args"]["text"] for e in events if e.get("cat") == "finding" and e["name"] == "race"]
        self.assertRegex(text, r"^read after write; aclnnSwiGlu, launch .* reads x: .*; aclnnSwiGlu, .* writes out: .*; "
                               r"nothing orders the two; fix: after .* aclrtRecordEvent.* aclrtStreamWaitEvent")

    def test_beside_a_timeline(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([GRADUS, "trace", "--limit", "0", "-o", "t.html", "--", PLANTED, "no_event_between"],
                                  cwd=folder, env=dict(os.environ, GRADUS_SANITIZE="on"), capture_output=True, text=True,
                                  timeout=100)
        self.assertEqual(re.findall(r"gradus sanitize: .* warnings", done.stderr), ["gradus sanitize: 1 error, 0 warnings"])
        self.assertNotIn("nothing found", done.stderr)  # the command's own word

    def test_tools(self):
        self.assertEqual(sanitize("--tool", "leakcheck", "--", PLANTED, "no_event_between").returncode, 0)
        self.assertEqual(sanitize("--tool", "racecheck", "--", PLANTED, "no_event_between").returncode, 1)
        words = ("--", PLANTED, "host_memory_as_a_tensor")
        self.assertIn("out-of-footprint", sanitize(*words).stderr)
        self.assertNotIn("out-of-footprint", sanitize("--report-api-errors", "no", *words).stderr)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            page, lines, log = (os.path.join(folder, name) for name in ("page.html", "found.json", "log"))
            done = sanitize("-o", page, "-o", lines, "--log-file", log, "--", PLANTED, "no_event_between")
            self.assertNotIn("race", done.stderr)
            with open(page) as file:
                html = file.read()
            self.assertEqual(html.count("<svg"), 2)  # for a screen, and for a telephone
            self.assertEqual(html.count("nothing orders the two</text>"), 2)
            self.assertIn("race.cpp", html)
            with open(lines) as file:
                self.assertEqual([json.loads(line)["id"] for line in file], ["race"])
            with open(log) as file:
                self.assertIn("error race", file.read())

    def test_suppressions(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("# known\nrace no_event_between\n")
            file.flush()
            done = sanitize("--suppressions", file.name, "--", PLANTED, "no_event_between")
            self.assertEqual(done.returncode, 0)
            self.assertIn("1 suppressed", done.stderr)
            self.assertEqual(sanitize("--suppressions", file.name, "--", PLANTED, "wait_before_record").returncode, 1)
        # a line of a function, to the end of the line
        place = re.search(r"race\.cpp:\d+ no_event_between", sanitize("--", PLANTED, "no_event_between").stderr)[0]
        for part, code in ((place, 0), (f"{place}  # known since May", 0), (f"{place}\r", 0), (f"{place}#1", 1),
                           (place.replace("no_event", "some_event"), 1)):
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
                file.write(f"race {part}\n")
                file.flush()
                done = sanitize("--suppressions", file.name, "--", PLANTED, "no_event_between")
                self.assertEqual(done.returncode, code, part)

    def test_files_that_cannot_be_opened(self):
        words = ("--", PLANTED, "no_event_between")
        for option in ("--suppressions", "--log-file"):
            for path in ("/no/such/file", tempfile.gettempdir()):
                done = sanitize(option, path, *words)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"{option} {path}: ", done.stderr)
                self.assertNotIn("race", done.stderr)

    def test_names_with_commas(self):
        with tempfile.TemporaryDirectory(prefix="a,b\\c") as folder:
            known, log = os.path.join(folder, "known,races.txt"), os.path.join(folder, "a,json=b")
            with open(known, "w") as file:
                file.write("race no_event_between\n")
            done = sanitize("--suppressions", known, "--log-file", log, "--", PLANTED, "no_event_between",
                            environment={"TMPDIR": folder})
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(log) as file:
                self.assertIn("1 suppressed", file.read())

    def test_wrong_words_in_the_environment(self):
        for text, message in (("onn", "value 'onn', expected off, on, memcheck"),
                              ("on,leak-check=half", "value 'leak-check=half', expected off, on"),
                              ("on,portability=all", "value 'portability=all', expected off, on"),
                              ("on,suppressions=/no/such/file", "suppressions=/no/such/file: No such file"),
                              ("on,log=/no/such/file", "log=/no/such/file: No such file"),
                              ("on,json=/tmp", "json=/tmp: Is a directory")):
            done = subprocess.run([PLANTED, "no_event_between"], capture_output=True, text=True, timeout=100,
                                  env=dict(os.environ, GRADUS_SANITIZE=text))
            self.assertEqual(done.returncode, 99, done.stderr)
            self.assertIn(f"GRADUS_SANITIZE: {message}", done.stderr)

    def test_leaks_in_full(self):
        done = sanitize("--leak-check", "full", "--", PLANTED, "everything_left").stderr
        self.assertEqual(len(re.findall(r"warning leak \(tensor\)", done)), 3)
        self.assertEqual(len(re.findall(r"warning leak \(memory\)", done)), 2)
        for what in ("stream", "event", "tensor list"):
            self.assertIn(f"leak ({what})", done)
        short = sanitize("--", PLANTED, "everything_left").stderr
        self.assertEqual(len(re.findall(r"warning leak \(tensor\)", short)), 1)
        self.assertIn("unused", sanitize("--leak-check", "full", "--", CORRECT, "freed_after_finalising_unused").stderr)

        loop = sanitize("--leak-check", "full", "--", VARIOUS, "left_in_a_loop").stderr
        self.assertEqual(len(re.findall(r"warning leak \(tensor\)", loop)), 3)
        self.assertEqual(len(re.findall(r"note unused", loop)), 2)

    def test_portability_in_full(self):
        copies = "copy_beside_queued_work_in_full"
        full = sanitize("--portability", "full", "--", PLANTED, copies)
        self.assertIn("warning portability (a synchronous copy that waits)", full.stderr)
        self.assertEqual(full.returncode, 0)
        for name in ("unaligned_source_in_full", "pageable_source_in_full", "stream_destroyed_in_full", copies):
            self.assertIn("nothing found", sanitize("--", PLANTED, name).stderr)
        self.assertIn("nothing found", sanitize("--portability", "full", "--", PLANTED, copies,
                                                environment={"GRADUS_SYNC_COPIES": "0"}).stderr)

    def test_what_memory_holds(self):
        size, others = map(int, sanitize("--", VARIOUS, "workspace_afterwards").stdout.split())
        self.assertGreater(size, 0)
        self.assertEqual(others, 0)

    def test_quarantine(self):
        def freed(settings):
            environment = dict(os.environ, GRADUS_SANITIZE=settings)
            return int(subprocess.run([VARIOUS, "addresses_come_again"], capture_output=True, text=True, timeout=100,
                                      env=environment, check=True).stdout)
        self.assertLess(freed("on,quarantine=0"), 64)
        for settings, size in (("on,quarantine=64", 64), ("on", 256)):
            self.assertGreaterEqual(freed(settings), size)
            self.assertLess(freed(settings), 2 * size)

    def test_schedules(self):
        good = sanitize("--schedules", "6", "--", CORRECT, "double_buffering")
        self.assertEqual(good.returncode, 0, good.stderr)
        self.assertIn("6 schedules, 0 with other results", good.stderr)
        bad = sanitize("--tool", "leakcheck", "--schedules", "6", "--", PLANTED, "bits_depend_on_the_order")
        self.assertEqual(bad.returncode, 1, bad.stderr)
        self.assertRegex(bad.stderr, r"GRADUS_SCHEDULE=late: copy \d+ to the host brings other bits")
        self.assertRegex(bad.stderr, r"race.cpp:\d+ bits_depend_on_the_order")

    def test_schedules_that_do_not_exist(self):
        for text in ("soon", "random:", "random:7x"):
            done = subprocess.run([CORRECT, "double_buffering"], capture_output=True, text=True, timeout=100,
                                  env=dict(os.environ, GRADUS_SCHEDULE=text))
            self.assertEqual(done.returncode, 0)
            self.assertIn(f"GRADUS_SCHEDULE: value '{text}', expected now, late or random:SEED", done.stderr)

    def test_late_is_not_never(self):
        done = sanitize("--", VARIOUS, "left_alone", environment={"GRADUS_SCHEDULE": "late"})
        self.assertGreaterEqual(float(done.stdout), 100, done.stderr)

    def test_a_seed_repeats_its_order(self):
        def copied(seed):
            with tempfile.NamedTemporaryFile("r") as file:
                settings = {"GRADUS_SCHEDULE": f"random:{seed}", "GRADUS_SANITIZE": f"leakcheck,log=/dev/null,copies={file.name}"}
                subprocess.run([PLANTED, "bits_depend_on_the_order"], env=dict(os.environ, **settings), timeout=100, check=True)
                return file.read()
        found = [copied(seed) for seed in range(1, 9)]
        self.assertEqual(found, [copied(seed) for seed in range(1, 9)])
        self.assertEqual(len(set(found)), 2)  # before the fill, and after it

    def test_findings_of_every_schedule(self):
        now = sanitize("--", VARIOUS, "polled_once", environment={"GRADUS_SCHEDULE": "now"})
        self.assertEqual(now.returncode, 0, now.stderr)
        with tempfile.TemporaryDirectory() as folder:
            page, lines = os.path.join(folder, "page.html"), os.path.join(folder, "found.json")
            done = sanitize("--json", "-o", page, "-o", lines, "--schedules", "4", "--", VARIOUS, "polled_once")
            self.assertEqual(done.returncode, 1, done.stderr)
            document = json.loads(done.stdout)
            with open(page) as file:
                self.assertIn("GRADUS_SCHEDULE=late", file.read())
            with open(lines) as file:
                self.assertEqual([json.loads(line) for line in file], document["findings"])
        self.assertEqual([(f["id"], f["schedule"], f["number"]) for f in document["findings"]], [("race", "late", 1)])

    def test_callbacks_that_tell_nothing(self):
        # the same calls as those of programs without a mistake: only what a callback has not done yet tells them apart
        for program, schedule in (("reads_what_a_callback_tells_of", "late"), ("reads_what_is_behind_a_callback", "now")):
            done = sanitize("--", VARIOUS, program, environment={"GRADUS_SCHEDULE": schedule})
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("1 error, 0 warnings", done.stderr)
            done = sanitize("--schedules", "2", "--", VARIOUS, program)
            self.assertEqual(done.returncode, 1, done.stderr)

    def test_copies_that_one_schedule_makes(self):
        for name, text in (("copies_only_what_is_complete", "is made by now, and not here"),
                           ("copies_only_what_is_late", "is made here, and not by now")):
            done = sanitize("--schedules", "2", "--", VARIOUS, name)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, rf"GRADUS_SCHEDULE=late: copy \d+ to the host {text}\n.*various.cpp:\d+ {name}")

    def test_correct_programs_under_every_schedule(self):
        names = re.findall(r"^CORRECT\((\w+)\)", sources("correct"), re.M)
        for schedule in ("now", "late", "random:3"):
            for name in names:
                if "callback_waits" in name and schedule == "now":
                    continue  # which runs the callback first, and it waits for what is asked for later
                if "fork" in name and SANITIZED:
                    continue  # whose locks may be taken for ever in a child that starts threads
                done = sanitize("--", CORRECT, name, environment={"GRADUS_SCHEDULE": schedule})
                self.assertEqual(done.returncode, 0, f"{schedule} {name}: {done.stderr}")

    def test_every_id_is_explained(self):
        text = sanitize("--explain", "all").stdout
        with open(os.path.join(HERE, "../../docs/sanitizer.md")) as file:
            self.assertTrue(file.read().endswith(text), "docs/sanitizer.md: gradus sanitize --explain all")
        expected = {word for line in re.findall(r"^// expect (.*)$", sources("planted"), re.M)
                    for word in line.split() if "=" not in word}
        for name in expected:
            self.assertIn(f"### {name}\n", text)
        self.assertEqual(sanitize("--explain", "nonsense").returncode, 2)

    @unittest.skipIf(SANITIZED, "a compiler's sanitizer has handlers of its own")
    def test_programs_that_a_signal_ends(self):
        for way, number in (("abort", signal.SIGABRT), ("terminate", signal.SIGTERM), ("crash", signal.SIGSEGV),
                            ("crash in the allocator", signal.SIGABRT)):
            with self.subTest(way=way):
                done = sanitize("--json", "--", CORRECT, "end", way)
                document = json.loads(done.stdout)
                self.assertEqual([f["id"] for f in document["findings"]], ["race"])
                self.assertEqual(document["program_exit"], 128 + number)
                self.assertIn("gradus sanitize: 1 error, 0 warnings\n", done.stderr)
                self.assertNotIn("no summary came", done.stderr)

    def test_a_program_that_closes_files_it_did_not_open(self):
        done = sanitize("--json", "--", CORRECT, "files_closed", environment={"GRADUS_TEST_MISTAKE": "1"})
        self.assertEqual([f["id"] for f in json.loads(done.stdout)["findings"]], ["race"], done.stderr)

    def test_a_program_s_own_handler(self):
        done = sanitize("--", CORRECT, "own_handler")
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipIf(SANITIZED, "a compiler's sanitizer must be loaded first")
    def test_a_program_that_opens_the_library_late(self):
        done = sanitize("--", os.environ["OPENED"], os.environ["LIBRARY"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("gradus sanitize: nothing found", done.stderr)

    @unittest.skipIf(SANITIZED, "a compiler's sanitizer must be loaded first")
    def test_python_s_own_handler(self):
        done = sanitize(
            "--", "python3", "-c", "import faulthandler, os, signal; faulthandler.enable();"
            f"import ctypes; ctypes.CDLL({os.environ['LIBRARY']!r}); os.kill(os.getpid(), signal.SIGSEGV)")
        self.assertIn("Fatal Python error: Segmentation fault", done.stderr)
        self.assertEqual(done.returncode, 128 + 11)

    @unittest.skipIf(SANITIZED, "a compiler's sanitizer must be loaded first")
    def test_python_s_small_stack_for_signals(self):
        done = sanitize(
            "--", "python3", "-c", "import ctypes, faulthandler; faulthandler.enable();"
            f"library = ctypes.CDLL({os.environ['LIBRARY']!r}); library.aclInit(None); library.aclrtSetDevice(0);"
            "x = ctypes.c_void_p(); library.aclrtMalloc(ctypes.byref(x), ctypes.c_size_t(4096), 0);"
            "print(ctypes.string_at(x.value, 4)); print([bytes(n) for n in range(3000)][-1][-1])")
        self.assertEqual(done.stdout, "b'\\xff\\xff\\xff\\xff'\n0\n", done.stderr)
        self.assertIn("error host-touches-device (read) #1", done.stderr)
        self.assertEqual(done.returncode, 1)

    @unittest.skipUnless(os.environ.get("WITH_ASAN"), "the build has a compiler's sanitizer itself")
    def test_beside_address_sanitizer(self):
        program, options = os.environ["WITH_ASAN"], {"ASAN_OPTIONS": "detect_leaks=0"}
        for name in ("host_reads_device_memory", "host_writes_device_memory", "pinned_source_overwritten",
                     "no_event_between"):
            done = sanitize("--", program, name, environment=options)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("1 error, 0 warnings", done.stderr)
            self.assertNotIn("AddressSanitizer", done.stderr)
            self.assertEqual(sanitize("--", program, name, "mended", environment=options).returncode, 0)


if __name__ == "__main__":
    unittest.main()
