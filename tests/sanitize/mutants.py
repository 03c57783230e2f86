#!/usr/bin/env python3
"""Does the suite notice it when a rule of order is broken? Breaks each once, builds, and expects a failure.
    mutants.py BUILD [WORD…]    a build folder of this tree; its library is made anew, and at the end as it was. With words: the
                                rules whose names hold one of them.
"""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

# What a mistake leaves unused is no error.
UNUSED = "".join(f'#pragma GCC diagnostic ignored "-Wunused-{what}"\n' for what in ("parameter", "variable", "but-set-variable"))
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# What is taken out, or put in its place, by file: some rules are kept by the sanitizer, some by the runtime that tells it.
RULES = {"src/sanitize/order.cpp": {
    "a wait brings the record's clock": ("        stream.clock.join(record->clock);\n", ""),
    "a record has the stream's clock": ("{stream.clock, id, front.task.ticket}", "{Clock(), id, front.task.ticket}"),
    "a wait for a record not asked for holds back": (
        "if (waits(front) && !forced)", "if (false && waits(front) && !forced)"),
    "a synchronised stream is known": ("    learn(state.clock);\n", ""),
    "who waits knows nothing of what is asked for meanwhile": ("if (first > ticket) return learn(clock);", "{}"),
    "a synchronised event is known": ("learn(found->clock)", "learn(Clock())"),
    "a callback tells the host": ("    learn(clock);\n}\n\nvoid Order::learn", "}\n\nvoid Order::learn"),
    "what is behind a callback waits for it": (
        "!stream.pending.empty() && stream.held_by == 0)", "!stream.pending.empty())"),
    "host accesses are judged": (
        "check(asked, access, find_(access).allocation, host_, {});", "static_cast<void>(access);"),
    "a collective is behind what its partners come after": (
        "    for (const Given& partner : partners) stream.clock.join(partner.before);\n", ""),
    "what comes after a collective is behind all of it": (
        "        stream.clock.advance(partner.stream, partner.number);\n", ""),
    "parts of one collective may race": (
        "stream.clock.join(partner.before);", "stream.clock.advance(partner.stream, partner.number);"),
    "two reads are no race": ("(a.writes || b.writes) ? ", "(true || a.writes) ? "),
    "strides beyond counting are no certain race": ("shared == Overlap::yes});\n    }\n}", "true});\n    }\n}"),
    "what is behind something held back is held back": (
        "if (plain && stream.pending.empty() && stream.held_by == 0)", "if (plain)"),
    "only what is ordered is forgotten": ("if (host_.at(kept.task.stream) < kept.number) return false;", ""),
    "only what is covered is replaced": (" && covered(kept.access, access)", " && (true || covered(kept.access, access))"),
    "a read does not stand for a write": ("(access.writes || !kept.access.writes) && ", ""),
}, "src/sanitize/order_questions.cpp": {
    "a copy waits for its device's work alone": ("stream.device == device ? ", "true ? "),
    "a copy waits for no stream that stands": ("            if (stuck(id, 0).wait == nullptr) return task;", "            return task;"),
    "what has ended is not waited for": ("if (it->second.newest_number > host_.at(id))", "if (it->second.newest_number > 0)"),
}, "src/sanitize/judge_portability.cpp": {
    "addresses of copies are multiples of 64": ("} else if (past != 0 && ", "} else if (false && "),
    "fills may begin anywhere": (" && task.kind == TaskKind::copy) {\n            Finding", ") {\n            Finding"),
    "pageable memory of an asynchronous copy is told": ("if (shadow_.find(access.address) == nullptr) {", "if (false) {"),
    "a copy that waits is told": ("|| task.device < 0) return;", "|| true) return;"),
    "a stream destroyed instead of waited for is told": (
        '(function.starts_with("aclrtDestroy") || function.starts_with("aclrtReset"))', "false"),
}, "src/runtime/event.cpp": {
    "a wait is for the newest record": ("        (*event)->newest = task->record();\n",
                                        "        if (!(*event)->newest) (*event)->newest = task->record();\n"),
    "each record is one of its own": (
        "        if ((*event)->awaited) task->record() = std::move((*event)->awaited);\n",
        "        if ((*event)->newest) task->record() = (*event)->newest;\n"),
    "an extended event that nobody recorded adds nothing": (
        "            if (e.kind == EventKind::extended) return {};\n", ""),
    "a wait for a reached record counts, too": (
        "if (record->reached && !observed()) return {};", "if (record->reached) return {};"),
    "a synchronised event tells the host": ("return tell_done(*record), Status();", "return Status();"),
    "an expired wait for an event lets what is held back run": (
        "    if (record->stream != nullptr) observe([&](Observer& o) { o.on_expired(record->stream->id()); });\n", ""),
    "a complete event tells the host": ("    if (reached) tell_done(*(*event)->newest);\n", ""),
    "an event that is not complete tells nothing": (
        "    if (reached) tell_done(*(*event)->newest);\n", "    if ((*event)->newest) tell_done(*(*event)->newest);\n"),
    "waits that have ended tell the host": (
        "    if (newest && newest->reached && newest->awaited) tell_done(*newest);\n", ""),
    "no waits tell nothing": ("newest->reached && newest->awaited)", "newest->reached)"),
    "a time tells the host": ("    tell_done(*record);\n    return record->reached_at;", "    return record->reached_at;"),
    "a reset forgets the record": ("if (event_->newest && event_->newest->reached) event_->newest.reset();", ""),
    "an event belongs to its device": ("tell_elsewhere(handle, Elsewhere::other_device);\n    auto next", "{}\n    auto next"),
}, "src/runtime/stream.cpp": {
    "a synchronised stream tells the host": (
        "    observe([&](Observer& o) { o.on_stream_done(id_, newest); });\n    return true;", "    return true;"),
    "an expired wait for a stream tells nothing": (
        "        observe([this](Observer& o) { o.on_expired(id_); });\n        return false;",
        "        observe([&](Observer& o) { o.on_stream_done(id_, newest); });\n        return false;"),
    "an expired wait lets what is held back run": (
        "        observe([this](Observer& o) { o.on_expired(id_); });\n        return false;", "        return false;"),
    "an idle stream tells the host": (
        "    observe([this](Observer& o) { o.on_stream_done(id_, queue_.newest()); });\n    return true;",
        "    return true;"),
    "a busy stream tells nothing": (
        "    if (!queue_.idle()) return false;\n    observe([this](Observer& o) { o.on_stream_done(id_, queue_.newest()); });\n",
        "    observe([this](Observer& o) { o.on_stream_done(id_, queue_.newest()); });\n    if (!queue_.idle()) return false;\n"),
    "a destroyed stream tells the host": (
        "        if (!force) observe([this](Observer& o) { o.on_stream_done(id_, queue_.newest()); });\n", ""),
    "a stream destroyed by force tells nothing": (
        "        if (!force) observe([this](Observer& o) { o.on_stream_done(id_, queue_.newest()); });\n",
        "        observe([this](Observer& o) { o.on_stream_done(id_, queue_.newest()); });\n"),
    "a wait without end is looked at": (
        "    if (timeout_ms < 0) observe([this](Observer& o) { o.on_wait(id_, 0); });\n", ""),
    "asked for comes before it runs": (
        "    if (first->info) tell_task(*first);\n    if (behind != nullptr && behind->info) tell_task(*behind);\n"
        "    if (at_once) run_front(lock);\n",
        "    if (at_once) return run_front(lock), Status();\n    if (first->info) tell_task(*first);\n"
        "    if (behind != nullptr && behind->info) tell_task(*behind);\n"),
    "what begins is told": (
        "    if (task->info) observe([&](Observer& o) { o.on_task_begin(*task->info); });\n", ""),
    "what has ended is told": (
        "    if (task->info) observe([&](Observer& o) { o.on_task_end(*task->info, code); });\n", ""),
    "work dropped at the end was not waited for": ("    observe([](Observer& o) { o.on_exit(); });\n", ""),
}, "src/runtime/context.cpp": {
    "a device's synchronisation is of the current context": (
        "if (stream->context() != context->handle || stream->running_here()) continue;",
        "if (stream->running_here()) continue;"),
    "work for a stream of another context is told": (
        "    tell_elsewhere(handle, current != nullptr ? Elsewhere::refused : Elsewhere::without_context);\n", ""),
}, "src/runtime/report.cpp": {
    "a callback that begins tells the host": (
        "            observe([&](Observer& o) { o.on_callback_begin(callback->id); });\n", ""),
    "what is behind a blocking callback waits for it": (
        "auto wait = blocks ? std::make_unique<CallbackWaitTask>(std::move(callback)) : nullptr;",
        "std::unique_ptr<CallbackWaitTask> wait;"),
}, "src/runtime/copy.cpp": {
    "a copy of the host's is judged before it waits": (
        "    tell(info, &Observer::on_host_access);\n    if (config_sync_copies()", "    if (config_sync_copies()"),
    "an asynchronous copy with pageable memory tells the host": (
        "    if (pageable) (*stream)->wait();", "    if (pageable && false) (*stream)->wait();"),
    "rows of a copy have gaps": (".stride = {static_cast<int64_t>(pitch), 1},", ".stride = {static_cast<int64_t>(shape.width), 1},"),
    "a copy reads its source": ("return {argument, static_cast<const std::byte*>(address), rows, !writes, writes};",
                                "return {argument, static_cast<const std::byte*>(address), rows, false, writes};"),
}, "src/runtime/memory.cpp": {
    "a free is told": (
        "    observe([=](Observer& o) { o.on_free(address, kind, allocation != nullptr ? allocation->id() : 0); });\n", ""),
}, "src/aclnn/launch.cpp": {
    "a workspace is written": (
        "        info->accesses.push_back({\"workspace\", static_cast<const std::byte*>(workspace), bytes, false, true});\n", ""),
    "outputs are written": ("const bool writes = argument.direction == Direction::output;", "const bool writes = false;"),
    "inputs are read": ("executor.slots[i].view(), !writes, writes, i,", "executor.slots[i].view(), false, writes, i,"),
}, "src/hccl/local_task.cpp": {
    "a collective lets its partners begin": ("        info->gives[r] =", "        if (false) info->gives[r] ="),
    "a collective waits for its partners": ("        info->takes[r] =", "        if (false) info->takes[r] ="),
}, "src/hccl/local_batch.cpp": {
    "a receive is behind its send": (
        "(letter.transfer.sends ? info->gives : info->takes)[i] = letter.subject;", "{}"),
}}


def build(folder):
    subprocess.run(["cmake", "--build", folder, "--target", "gradus"], check=True, stdout=subprocess.DEVNULL)


def noticed(folder, patience=None):
    tests = subprocess.Popen(["ctest", "--test-dir", folder, "-R", "sanitize_(random|planted)$",
                              "-j", str(os.cpu_count()), "--stop-on-failure"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        return tests.wait(timeout=patience) != 0
    except subprocess.TimeoutExpired:
        return True
    finally:  # a program that waits for ever outlives its test
        with contextlib.suppress(ProcessLookupError):
            os.killpg(tests.pid, signal.SIGKILL)


def main():
    folder, words, survived = sys.argv[1], sys.argv[2:], []
    build(folder)
    begin = time.monotonic()
    assert not noticed(folder), "the tests fail without a mistake"
    patience = 4 * (time.monotonic() - begin)  # some mistakes make programs wait for ever
    for name, rules in RULES.items():
        path = ROOT / name
        original = path.read_text()
        try:
            for rule, (old, new) in rules.items():
                assert original.count(old) == 1, (rule, original.count(old))
                if words and not any(word in rule for word in words):
                    continue
                path.write_text(UNUSED + original.replace(old, new))
                build(folder)
                found = noticed(folder, patience)
                print("noticed " if found else "SURVIVED", rule, flush=True)
                survived += [] if found else [rule]
        finally:
            path.write_text(original)
    build(folder)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
