#!/usr/bin/env python3
"""The project's own tests under the sanitizer: it finds in them what suite.txt says, no more and no less.
    suite.py BUILD [--write] [NAME…]     a build folder; --write: keeps what it finds; NAME: tests of ctest

A test program looks into device memory, leaves things behind and makes mistakes on purpose, so the list is long; each
line is a test with the ids that it gives. What is not in the list gives none.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

LIST = pathlib.Path(__file__).with_name("suite.txt")
# Not here: programs that are themselves run under it, and those that count allocations or refuse threads.
LEFT_OUT = ("faults", "runtime_threadless", "trace", "base_", "gemm", "simd", "halves")


def programs(build):
    """Name in ctest, command and environment of every GoogleTest program."""
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True)
    for test in json.loads(shown.stdout)["tests"]:
        command, properties = test.get("command", []), {p["name"]: p["value"] for p in test.get("properties", [])}
        if not command or not command[0].endswith("_test") or test["name"].startswith(LEFT_OUT):
            continue
        if "/as_" not in test["name"]:
            yield test["name"], command[0], dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []))


def cases(program):
    suite = ""
    listed = subprocess.run([program, "--gtest_list_tests"], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith(" "):
            yield suite + name
        elif name.endswith("."):
            suite = name


def ids_of(program, environment, case):
    with tempfile.TemporaryDirectory() as folder:
        lines = os.path.join(folder, "json")
        done = subprocess.run([program, f"--gtest_filter={case}"], capture_output=True, text=True, timeout=600,
                              env=dict(os.environ, **environment, GRADUS_SANITIZE=f"on,log={folder}/log,json={lines}"))
        found = []
        if os.path.exists(lines):
            with open(lines, encoding="utf-8") as file:
                found = [json.loads(line) for line in file]
    ids = {f["id"] for f in found if "id" in f}
    return ids | ({f"exit {done.returncode}"} if done.returncode != 0 else set())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("names", nargs="*")
    words = parser.parse_intermixed_args()
    chosen = [p for p in programs(words.build) if not words.names or p[0] in words.names]
    jobs = [(name, program, environment, case) for name, program, environment in chosen for case in cases(program)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(lambda job: ids_of(*job[1:]), jobs))
    found = [f"{name} {case}: {', '.join(sorted(ids))}" for (name, _, _, case), ids in zip(jobs, answers) if ids]
    if words.write:
        LIST.write_text("\n".join(sorted(found)) + "\n", encoding="utf-8")
        return 0
    expected = [line for line in LIST.read_text(encoding="utf-8").splitlines() if line.split()[0] in {c[0] for c in chosen}]
    for line in sorted(set(expected) ^ set(found)):
        print("missing:" if line in expected else "new:", line)
    print(f"{len(jobs)} tests, {len(found)} of them with findings")
    return 0 if set(expected) == set(found) else 1


sys.exit(main())
