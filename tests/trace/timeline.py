"""What holds for every timeline that the library writes, checked without any of its code."""
import collections
import csv
import json
import pathlib

HOST, HARDWARE, OVERLAP = "CANN", "Ascend Hardware", "Overlap Analysis"
WORK = ("compute", "communication", "copy")
KEYS = {"X": {"dur", "name", "cat"}, "M": {"name", "args"}, "C": {"name", "args"}, "i": {"name", "cat", "s", "args"},
        "s": {"id", "name", "cat"}, "f": {"id", "name", "cat", "bp"}}


class Timeline:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.document = json.loads(self.path.read_text(encoding="utf-8"))
        self.sort()

    def sort(self):
        self.events = self.document["traceEvents"]
        self.of = collections.defaultdict(list)
        for event in self.events:
            self.of[event["ph"]].append(event)
        self.groups = {e["pid"]: e["args"]["name"] for e in self.of["M"] if e["name"] == "process_name"}
        self.rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in self.of["M"] if e["name"] == "thread_name"}
        self.spans = collections.defaultdict(list)
        for event in self.of["X"]:
            self.spans[event["pid"], event["tid"]].append(event)
        for spans in self.spans.values():
            spans.sort(key=lambda e: (e["ts"], -e["dur"]))

    def in_group(self, name):
        return {row: spans for row, spans in self.spans.items() if self.groups.get(row[0]) == name}

    def tasks(self, *categories):
        return sorted((e for spans in self.in_group(HARDWARE).values() for e in spans if not categories or e["cat"] in categories),
                      key=lambda e: e["args"]["Task Id"])

    def calls(self, name=None):
        return [e for spans in self.in_group(HOST).values() for e in spans if e["cat"] == "call" and name in (None, e["name"])]

    def findings(self):
        return [e for e in self.of["i"] if e["cat"] == "finding"]

    def arrows(self, kind):
        """Pairs of their ends."""
        heads = {e["id"]: e for e in self.of["f"]}
        return [(e, heads[e["id"]]) for e in self.of["s"] if e["cat"] == kind]

    def enclosing(self, event):
        """The spans that an arrow's end hangs on: in its row, at its time."""
        return [e for e in self.spans[event["pid"], event["tid"]] if ns(e["ts"]) <= ns(event["ts"]) <= end(e)]

    def table(self, name):
        path = self.path.with_name(f"{name}_{self.path.stem}.csv")
        with open(path, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))


def ns(micros):
    return round(micros * 1000)


def end(event):
    return ns(event["ts"]) + ns(event["dur"])


def check(t):
    """AssertionError if it is not sound."""
    assert t.document["displayTimeUnit"] == "ns"
    check_fields(t)
    check_rows(t)
    check_nesting(t)
    check_arrows(t)
    check_overlap(t)
    check_counters(t)


def check_fields(t):
    for event in t.events:
        assert event["ph"] in KEYS, event
        assert KEYS[event["ph"]] | {"pid", "tid", "ts"} <= event.keys(), event
        assert event["ts"] >= 0 and event.get("dur", 0) >= 0, event
    times = [e["ts"] for e in t.events if e["ph"] != "M"]
    assert max(times) - min(times) < 600e6, "ten minutes: a clock is wrong"


def check_rows(t):
    assert set(t.groups.values()) <= {HOST, HARDWARE, OVERLAP}
    for event in t.events:
        assert event["pid"] in t.groups, f"no name for the group of {event}"
        if event["ph"] in "Xi":
            assert (event["pid"], event["tid"]) in t.rows, f"no name for the row of {event}"
    for event in t.tasks():
        assert t.rows[event["pid"], event["tid"]] == f"Stream {event['args']['Stream Id']}", event


def check_nesting(t):
    for row, spans in t.spans.items():
        open_ends = []
        for event in spans:
            while open_ends and open_ends[-1] <= ns(event["ts"]):
                open_ends.pop()
            assert not open_ends or end(event) <= open_ends[-1], f"{event} begins inside another and ends outside"
            assert not open_ends or t.groups[row[0]] == HOST, f"{event}: two at a time on {t.rows[row]}"
            if ns(event["dur"]) > 0:
                open_ends.append(end(event))
    order = collections.defaultdict(list)
    for event in t.tasks():
        order[event["pid"], event["tid"]].append(ns(event["ts"]))
    for begins in order.values():
        assert begins == sorted(begins), "a stream ran its tasks in another order than they were asked for"


def check_arrows(t):
    begins, heads = collections.Counter(e["id"] for e in t.of["s"]), collections.Counter(e["id"] for e in t.of["f"])
    assert begins == heads and set(begins.values()) <= {1}, "an arrow with one end, or with three"
    for kind in {e["cat"] for e in t.of["s"]}:
        for a, b in t.arrows(kind):
            assert a["cat"] == b["cat"] and ns(a["ts"]) <= ns(b["ts"]), f"{a} points back to {b}"
            assert t.enclosing(a) and t.enclosing(b), f"{a} to {b} hangs on nothing"
    launched = {(b["pid"], b["tid"], ns(b["ts"])) for _, b in t.arrows("launch")}
    for task in t.tasks():
        assert (task["pid"], task["tid"], ns(task["ts"])) in launched, f"{task} has no arrow from its call"


def union(spans):
    """Merged [begin, end) of spans that take time, in order."""
    merged = []
    for begin, stop in sorted((ns(e["ts"]), end(e)) for e in spans if ns(e["dur"]) > 0):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(stop, merged[-1][1])
        else:
            merged.append([begin, stop])
    return merged


def length(intervals):
    return sum(stop - begin for begin, stop in intervals)


def check_overlap(t):
    for pid, name in t.groups.items():
        if name != OVERLAP:
            continue
        tasks = [e for (group, _), spans in t.spans.items() if group == pid - 1 for e in spans]
        rows = {t.rows[row]: union(spans) for row, spans in t.spans.items() if row[0] == pid}
        assert rows.get("Computing", []) == union(e for e in tasks if e["cat"] == "compute"), "Computing"
        talk = union(e for e in tasks if e["cat"] == "communication")
        assert rows.get("Communication", []) == talk, "Communication"
        either = length(union(e for e in tasks if e["cat"] in ("compute", "communication")))
        assert length(rows.get("Communication(Not Overlapped)", [])) == either - length(rows.get("Computing", [])), "alone"
        assert rows.get("Copy", []) == union(e for e in tasks if e["cat"] == "copy"), "Copy"
        busy = length(union(e for e in tasks if e["cat"] in WORK))
        waiting = length(union(e for e in tasks if e["cat"] in (*WORK, "wait"))) - busy
        assert length(rows.get("Waiting", [])) == waiting, "Waiting"
        ends = [point for intervals in rows.values() for pair in intervals for point in pair]
        assert not ends or length(rows.get("Free", [])) == max(ends) - min(ends) - busy - waiting, "Free"


def check_counters(t):
    values = collections.defaultdict(list)
    for event in t.of["C"]:
        (value,) = event["args"].values()
        assert value >= 0, event
        values[event["pid"], event["name"]].append((ns(event["ts"]), value))
    for (pid, name), points in values.items():
        if name == "queue depth":
            tasks = [e for (group, _), spans in t.spans.items() if group == pid for e in spans]
            asked = {(b["pid"], b["tid"], ns(b["ts"])): ns(a["ts"]) for a, b in t.arrows("launch")}
            changes = [(asked[e["pid"], e["tid"], ns(e["ts"])], 1) for e in tasks] + [(end(e), -1) for e in tasks]
            level, levels = 0, {}
            for at, change in sorted(changes):
                level += change
                levels[at] = level
            assert all(levels[at] == value for at, value in points), "queue depth"
            assert sorted(points)[-1][1] == 0
