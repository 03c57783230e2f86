#!/usr/bin/env python3
"""Gradus beside PyTorch: one process, the same memory, the same threads, in turn round by round.

    peers.py build/prefix SwiGluGrad --quick

Every way in which PyTorch can compute an operator is tried; the ratio is to the fastest. Results are compared first.
GRADUS_PEER_PRELOAD names a library to be preloaded, should PyTorch need one to work on this machine.
"""

import argparse
import ctypes
import gc
import json
import math
import mmap
import os
import platform
import statistics
import sys
import time

# A malloc that keeps its pages: the library works in memory that was there before, so PyTorch shall as well.
TUNABLES = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1000000000000:glibc.malloc.hugetlb=1"


def start_again_tuned():
    """The loader reads both variables before Python starts."""
    preload = os.environ.get("GRADUS_PEER_PRELOAD", "")
    if os.environ.get("GLIBC_TUNABLES") == TUNABLES and (not preload or preload in os.environ.get("LD_PRELOAD", "")):
        return
    environment = dict(os.environ, GLIBC_TUNABLES=TUNABLES)
    if preload:
        environment["LD_PRELOAD"] = " ".join(filter(None, [preload, os.environ.get("LD_PRELOAD")]))
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


if __name__ == "__main__":
    start_again_tuned()

try:
    import torch
    import torch._functorch.config
except ImportError:
    sys.exit("peers.py: PyTorch is missing; ./build.sh bench --peer sets up build/python, which has it")

from cases import OPERATORS  # noqa: E402
from library import Library  # noqa: E402

DTYPE_NAMES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
NAME_OF = {dtype: name for name, dtype in DTYPE_NAMES.items()}
# Largest error beside the right answer, relative to |answer| + 1. Peers round after every step, so not ours decides.
TOLERANCE = {torch.bfloat16: 4e-2, torch.float16: 5e-3, torch.float32: 1e-5}
REST = 0.02  # seconds between two runs: OpenMP's threads spin that long after work, on the CPUs the next one needs
HOPELESS = 2.5  # a peer this many times slower than the best is not measured further
HOPELESS_COLD = 6  # and one this many times slower in its first run is not even tried again, at no other shape either


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown CPU"


def amx_palette_missing():
    """True on an AMX machine whose hypervisor hides the tile palette (CPUID leaf 0x1D): oneDNN dies of that."""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        if " amx_tile" not in info.read():
            return False
    # push rbx; mov eax, 0x1d; mov ecx, 1; cpuid; pop rbx; ret
    code = bytes.fromhex("53 b81d000000 b901000000 0fa2 5b c3")
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    cpuid = ctypes.CFUNCTYPE(ctypes.c_uint32)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    return cpuid() == 0


def spread(samples):
    if len(samples) == 1:
        return {"q1": samples[0], "median": samples[0], "q3": samples[0]}
    q1, median, q3 = statistics.quantiles(samples, n=4, method="inclusive")
    return {"q1": q1, "median": median, "q3": q3}


def seconds_of(function):
    time.sleep(REST)
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


class Compiler:
    """torch.compile, or the reason why it does not work here."""

    def __init__(self):
        self.reason = None
        torch._functorch.config.donated_buffer = False  # or a graph could not be walked backward twice
        try:
            probe = torch.compile(lambda x: x * 2 + 1)
            probe(torch.ones(1024))
        except Exception as error:  # whatever is missing: compiler, headers
            self.reason = next(iter(str(error).splitlines()), type(error).__name__)

    def __call__(self, function):
        return torch.compile(function, dynamic=False, fullgraph=True)


def ways_of(case, compiler, wanted):
    ways = {name: way for name, way in case.eager.items() if wanted(name)}
    if compiler.reason is None:
        ways.update((name, make(compiler)) for name, make in case.compiled.items() if wanted(name))
    return ways


def check(case, dtype, expected, who, result):
    for got, want in zip(result, expected, strict=True):
        error = ((case.part(got).double() - want).abs() / (want.abs() + 1)).max().item()
        if not error <= TOLERANCE[dtype]:
            raise RuntimeError(f"{who} is wrong: error {error:.2g}, allowed {TOLERANCE[dtype]:.2g}")


def measure(case, dtype, compiler, effort, called, hopeless):
    """Seconds of every round, by way; ours is 'gradus'. hopeless: ways that are left out, and it may grow"""
    expected = case.expected()
    case.ours()
    check(case, dtype, expected, "gradus", case.result)
    ways, trial = ways_of(case, compiler, lambda name: called in name and name not in hopeless), {}
    if not ways:
        raise RuntimeError(f"no way of PyTorch's is called '{called}': {', '.join([*case.eager, *case.compiled])}")
    for name, way in ways.items():
        best = min(trial.values(), default=math.inf)
        trial[name] = seconds_of(lambda: check(case, dtype, expected, name, [tensor.detach() for tensor in way()]))
        for patience in (HOPELESS_COLD if name in case.eager else math.inf, HOPELESS):  # the first run compiles
            if trial[name] <= patience * best:
                trial[name] = min(trial[name], seconds_of(way))
    best = min(trial.values())
    hopeless.update(name for name in ways if trial[name] > HOPELESS_COLD * best)
    ways = {name: way for name, way in ways.items() if trial[name] <= HOPELESS * best}
    times = {name: [] for name in ["gradus", *ways]}
    rounds, budget = effort
    end = time.perf_counter() + budget
    while len(times["gradus"]) < rounds and (len(times["gradus"]) < 5 or time.perf_counter() < end):
        times["gradus"].append(seconds_of(case.ours))
        for name, way in ways.items():
            times[name].append(seconds_of(way))
    return times, {name: value for name, value in trial.items() if name not in times}


def result_of(op, shape, dtype, target, times, dropped):
    best = min((name for name in times if name != "gradus"), key=lambda name: statistics.median(times[name]))
    ratio = spread([peer / ours for peer, ours in zip(times[best], times["gradus"])])
    return {"operator": op, "dtype": NAME_OF[dtype], "shape": list(shape), "rounds": len(times["gradus"]),
            "ratio": ratio, "target": target, "met": ratio["median"] >= target, "best_peer": best,
            "seconds": {name: spread(samples) for name, samples in times.items()},
            "slower_peers_seconds": dropped}


def row(operator, dtype, shape, ours, peer, ratio, quartiles, target, verdict, best):
    return (f"{operator:<{WIDTH}}  {dtype:<5}  {shape:<16}  {ours:>9}  {peer:>9}  {ratio:>6}  {quartiles:<13}  "
            f"{target:>6}  {verdict:<5}  {best}").rstrip()


WIDTH = max(map(len, OPERATORS))


def show(r):
    shape = str(r["shape"]).replace(" ", "")
    ours, peer = (r["seconds"][name]["median"] * 1e3 for name in ("gradus", r["best_peer"]))
    ratio = r["ratio"]
    print(row(r["operator"], r["dtype"], shape, f"{ours:.2f} ms", f"{peer:.2f} ms", f"{ratio['median']:.2f}",
              f"{ratio['q1']:.2f} - {ratio['q3']:.2f}", f"{r['target']:.1f}", "ok" if r["met"] else "below",
              r["best_peer"]), flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", help="where the library is installed")
    parser.add_argument("operators", nargs="*", metavar="operator", help=", ".join(OPERATORS) + "; all unless given")
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--dtype", default="bf16,f16,f32", help="with commas between; all unless given")
    parser.add_argument("--shape", type=int, default=0, help="the Nth shape of each operator only")
    parser.add_argument("--way", default="", help="those of PyTorch's ways only whose name contains this")
    parser.add_argument("--threads", type=int, default=2, help="of both; 2 unless given")
    parser.add_argument("--json", help="file to write everything measured to")
    options = parser.parse_intermixed_args()
    options.dtype = options.dtype.split(",")
    for name in options.dtype:
        if name not in DTYPE_NAMES:
            parser.error(f"--dtype: '{name}', expected bf16, f16 or f32")
    for name in options.operators:
        if name not in OPERATORS:
            parser.error(f"unknown operator {name}, expected one of {', '.join(OPERATORS)}")
    return options


def main():
    options = arguments()
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    library = Library(options.prefix, options.threads)
    machine = {"cpu": cpu_model(), "isa": library.option("max_isa"), "threads": options.threads,
               "torch_isa": torch.backends.cpu.get_cpu_capability()}
    print(f"Gradus {library.version} ({machine['isa']}) and PyTorch {torch.__version__} ({machine['torch_isa']}) on "
          f"{machine['cpu']}, {options.threads} threads")
    if os.environ.get("GRADUS_PEER_PRELOAD"):
        print(f"preloaded: {os.path.basename(os.environ['GRADUS_PEER_PRELOAD'])}")
    if amx_palette_missing():
        print("AMX without a tile palette (CPUID leaf 0x1D is 0): PyTorch would crash in a bf16 matrix product; "
              "GRADUS_PEER_PRELOAD may name a library that answers it")
    compiler = Compiler()
    if compiler.reason is not None:
        print(f"torch.compile does not work here and is left out: {compiler.reason}")

    print("\n" + row("operator", "dtype", "shape", "gradus", "best peer", "ratio", "quartiles", "target", "", ""))
    results, failed = [], False
    for name in options.operators or OPERATORS:
        operator = OPERATORS[name]
        hopeless = {dtype: set() for dtype in operator.dtypes}
        for number, shape in enumerate(operator.shapes, 1):
            for dtype in operator.dtypes:
                if NAME_OF[dtype] not in options.dtype or options.shape not in (0, number):
                    continue
                try:
                    case = operator.build(library, shape, dtype)
                    effort = (7, 0.7) if options.quick else (15, 3.0)
                    times, dropped = measure(case, dtype, compiler, effort, options.way, hopeless[dtype])
                    results.append(result_of(name, shape, dtype, operator.target[dtype], times, dropped))
                    show(results[-1])
                except RuntimeError as error:
                    print(f"{name} {NAME_OF[dtype]} {list(shape)}: {error}", file=sys.stderr)
                    failed = True
                case = None
                torch.compiler.reset()
                gc.collect()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"schema": "gradus-peers/1", "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                       "library": library.version, "torch": torch.__version__, "machine": machine,
                       "torch_compile": compiler.reason or "works", "quick": options.quick, "results": results},
                      file, indent=1)
            file.write("\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
