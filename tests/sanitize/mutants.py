#!/usr/bin/env python3
"""Does the suite notice it when a rule of order is broken? Breaks each once, builds, and expects a failure.
    mutants.py BUILD      a build folder of this tree; its library is made anew, and at the end as it was
"""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ORDER = ROOT / "src/sanitize/order.cpp"
# What is taken out, or put in its place.
RULES = {
    "a wait brings the record's clock": ("        stream.clock.join(record->clock);\n", ""),
    "a record has the stream's clock": ("{stream.clock, id, front.task.ticket}", "{Clock(), id, front.task.ticket}"),
    "a wait for a record not asked for holds back": (
        "if (waits(front) && !forced)", "if (false && waits(front) && !forced)"),
    "a synchronised stream is known": ("learn(streams_[stream].clock)", "static_cast<void>(stream)"),
    "a synchronised event is known": ("learn(found->clock)", "learn(Clock())"),
    "a callback tells the host": ("    learn(clock);\n}\n\nvoid Order::learn", "}\n\nvoid Order::learn"),
    "what is behind a callback waits for it": (
        "!stream.pending.empty() && stream.held_by == 0)", "!stream.pending.empty())"),
    "host accesses are judged": ("check(asked, access, host_, {});", "if (false) check(asked, access, host_, {});"),
    "a collective is behind what its partners come after": (
        "    for (const Given& partner : partners) stream.clock.join(partner.before);\n", ""),
    "what comes after a collective is behind all of it": (
        "        stream.clock.advance(partner.stream, partner.number);\n", ""),
    "parts of one collective may race": (
        "stream.clock.join(partner.before);", "stream.clock.advance(partner.stream, partner.number);"),
    "two reads are no race": ("(a.writes || b.writes) && ", ""),
    "only what is ordered is forgotten": ("if (host_.at(kept.task.stream) < kept.number) return false;", ""),
    "only what is covered is replaced": (" && covered(kept.access, access)", " && (true || covered(kept.access, access))"),
    "a read does not stand for a write": ("(access.writes || !kept.access.writes) && ", ""),
}


def build(folder):
    subprocess.run(["cmake", "--build", folder, "--target", "gradus"], check=True, stdout=subprocess.DEVNULL)


def main():
    folder, original, survived = sys.argv[1], ORDER.read_text(), []
    try:
        for rule, (old, new) in RULES.items():
            assert original.count(old) == 1, (rule, original.count(old))
            ORDER.write_text(original.replace(old, new))
            build(folder)
            noticed = subprocess.run(["ctest", "--test-dir", folder, "-R", "sanitize_(random|planted)", "--timeout", "60"],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0
            print("noticed " if noticed else "SURVIVED", rule, flush=True)
            survived += [] if noticed else [rule]
    finally:
        ORDER.write_text(original)
        build(folder)
    return 1 if survived else 0


sys.exit(main())
