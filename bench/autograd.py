#!/usr/bin/env python3
"""gradus.torch beside PyTorch: forward and backward of each operator, in one process and in turn.

    autograd.py [head] [swiglu] [softmax] [segsum] [nsa] [tiny] [--dtype bf16] [--rounds 7] [--memory V]

Every way is run once before it counts, then round by round; printed are each way's median time and, of the best way of
PyTorch's to ours, the median of the rounds' ratios with its quartiles. --memory prints the peak memory of the head at
a vocabulary of V, each way in a process of its own.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from peers import amx_palette_missing, start_again_tuned

if __name__ == "__main__" and "--peak" not in sys.argv:
    start_again_tuned()  # fresh pages would cost PyTorch more than any operator

if amx_palette_missing():
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    print("AMX is hidden from PyTorch here (CPUID leaf 0x1D is empty): its products run without")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import gradus.torch as G  # noqa: E402
from cases.exp_segsum import exp_segsum_literal  # noqa: E402
from cases.scaled_masked_softmax import SOFTMAX_SCALE, masked_softmax  # noqa: E402
from cases.swi_glu import silu_times  # noqa: E402

HOPELESS = 20  # a way so many times slower than the best in its first run is not run again
HEADS = [(1024, 16032, 4096), (512, 151936, 896), (1024, 50257, 768)]


def plain_head(x, weight, target):
    return F.cross_entropy(F.linear(x, weight).float(), target)


def chunked_head(x, weight, target):
    return F.linear_cross_entropy(x, weight, target, options=torch.nn.LinearCrossEntropyOptions())


def wide_head(x, weight, target):
    return F.cross_entropy(F.linear(x.float(), weight.float()), target)


HEAD_WAYS = {
    "plain": plain_head,
    "plain, compiled": torch.compile(plain_head, dynamic=False),
    "F.linear_cross_entropy": F.linear_cross_entropy,
    "F.linear_cross_entropy, chunked": chunked_head,
    "in f32": wide_head,
    "gradus": G.linear_cross_entropy,
}


def forward_backward(function, leaves, *rest):
    """One step that leaves no gradients behind; the upstream gradient is made once."""
    state = {}

    def run():
        out = function(*leaves, *rest)
        if "grad" not in state:
            state["grad"] = torch.randn_like(out) if out.dim() else None
        torch.autograd.grad(out, leaves, state["grad"])

    return run


def leaf(*shape, dtype, scale=1.0):
    return (torch.randn(shape) * scale).to(dtype).requires_grad_()


def head_ways(dtype):
    """Without f16 arithmetic PyTorch's products of f16 take minutes, where in f32 they take a second."""
    slow = dtype == torch.float16 and not torch.ops.mkldnn._is_mkldnn_fp16_supported()
    return {name: way for name, way in HEAD_WAYS.items() if not slow or name in ("in f32", "gradus")}


def head_cases(dtype):
    for tokens, words, hidden in HEADS:
        x, weight = leaf(tokens, hidden, dtype=dtype), leaf(words, hidden, dtype=dtype, scale=hidden**-0.5)
        target = torch.randint(words, (tokens,))
        yield f"{tokens}x{words}x{hidden}", {
            name: forward_backward(way, (x, weight), target) for name, way in head_ways(dtype).items()
        }


def swiglu_cases(dtype, shapes=((4096, 22016), (4096, 7168))):
    for shape in shapes:
        ways = {"eager": silu_times, "compiled": torch.compile(silu_times, dynamic=False), "gradus": G.swiglu}
        x = leaf(*shape, dtype=dtype)
        yield "x".join(map(str, shape)), {name: forward_backward(way, (x,)) for name, way in ways.items()}


def softmax_cases(dtype, shapes=((4, 32, 1024, 1024),)):
    for shape in shapes:
        mask = torch.ones(shape[-2:], dtype=torch.bool).triu(1)[None, None]
        ways = {
            "eager": masked_softmax,
            "compiled": torch.compile(masked_softmax, dynamic=False),
            "gradus": lambda x, mask: G.scaled_masked_softmax(x, mask, SOFTMAX_SCALE),
        }
        x = leaf(*shape, dtype=dtype)
        yield "x".join(map(str, shape)), {name: forward_backward(way, (x,), mask) for name, way in ways.items()}


def segsum_cases(dtype, shapes=((1, 80, 16, 256), (2, 8, 8, 64))):
    for shape in shapes:
        compiled = torch.compile(exp_segsum_literal, dynamic=False)
        ways = {"eager": exp_segsum_literal, "compiled": compiled, "gradus": G.exp_segsum}
        a = leaf(*shape, dtype=dtype, scale=0.1)
        yield "x".join(map(str, shape)), {name: forward_backward(way, (a,)) for name, way in ways.items()}


def nsa_cases(dtype, length=2048, heads=16, block=64, count=16):
    q, k, v = (leaf(length, n, d, dtype=dtype) for n, d in ((heads, 192), (1, 192), (1, 128)))
    own = torch.arange(length) // block
    scores = torch.rand(length, length // block).masked_fill(torch.arange(length // block) > own[:, None], -1)
    blocks = scores.topk(count, -1).indices[:, None, :].to(torch.int32)
    chosen = torch.zeros(length, length // block, dtype=torch.bool).scatter_(1, blocks[:, 0].long(), True)
    mask = chosen.repeat_interleave(block, 1) & torch.ones(length, length, dtype=torch.bool).tril()

    def dense(q, k, v):
        rows = (t.transpose(0, 1)[None] for t in (q, k, v))
        return F.scaled_dot_product_attention(*rows, mask, scale=192**-0.5, enable_gqa=True)[0].transpose(0, 1)

    def ours(q, k, v):
        return G.nsa_selected_attention(q, k, v, blocks, scale=192**-0.5, block_size=block, block_count=count)

    ways = {"dense, masked": dense, "dense, masked, compiled": torch.compile(dense, dynamic=False), "gradus": ours}
    yield f"{length} tokens, {heads} heads", {n: forward_backward(w, (q, k, v)) for n, w in ways.items()}


def tiny_cases(dtype):
    x = torch.randn(4, 128).to(dtype)
    y = x.clone().requires_grad_()
    for name, a in (("forward", x), ("forward, recorded", y)):
        ways = {"eager": lambda a=a: silu_times(a), "gradus": lambda a=a: G.swiglu(a)}
        yield f"swiglu 4x128 {name}", {n: many(w) for n, w in ways.items()}
    ways = {"eager": forward_backward(silu_times, (y,)), "gradus": forward_backward(G.swiglu, (y,))}
    yield "swiglu 4x128 forward and backward", {n: many(w) for n, w in ways.items()}


def many(function, times=1000):
    """So often that a clock can tell; a run's time is of one call."""

    def run():
        for _ in range(times):
            function()

    run.times = times
    return run


def seconds(run):
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) / getattr(run, "times", 1)


def measure(name, ways, rounds):
    cold = {way: seconds(run) for way, run in ways.items()}
    hopeless = {way for way, t in cold.items() if t > HOPELESS * min(cold.values()) and "compiled" not in way}
    for way in hopeless:
        print(f"{name}: {way} took {cold[way]:.1f} s and is not measured further")
    ways = {way: run for way, run in ways.items() if way not in hopeless}
    times = {way: [] for way in ways}
    for _ in range(rounds):
        for way, run in ways.items():
            times[way].append(seconds(run))
    peers = {way: statistics.median(t) for way, t in times.items() if way != "gradus"}
    best = min(peers, key=peers.get)
    ratios = [a / b for a, b in zip(times[best], times["gradus"])]
    q1, median, q3 = statistics.quantiles(ratios, n=4, method="inclusive")
    print(f"{name}: {median:.2f} times as fast as {best} ({q1:.2f} to {q3:.2f})")
    for way, t in times.items():
        print(f"    {way:32} {statistics.median(t) * 1e3:10.4f} ms")
    sys.stdout.flush()


def status_bytes(name):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name + ":"))
    return int(line.split()[1]) * 1024


def peak(words, way):
    """In a process of its own, with a malloc that gives pages back: how far its memory rises above what the operands
    take. What making them took at its peak, in float32, does not count; nor does what compiling took."""
    torch.manual_seed(0)
    x, weight = leaf(512, 896, dtype=torch.bfloat16), leaf(words, 896, dtype=torch.bfloat16, scale=0.03)
    run = forward_backward(HEAD_WAYS[way], (x, weight), torch.randint(words, (512,)))
    if "compiled" in way:
        run()
    before = status_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    run()
    print((status_bytes("VmHWM") - before) / 1e9)


DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
CASES = {
    "head": (head_cases, (torch.bfloat16, torch.float16)),
    "swiglu": (swiglu_cases, (torch.float32, torch.bfloat16)),
    "softmax": (softmax_cases, (torch.float32, torch.bfloat16)),
    "segsum": (segsum_cases, (torch.float32, torch.bfloat16)),
    "nsa": (nsa_cases, (torch.bfloat16,)),
    "tiny": (tiny_cases, (torch.bfloat16,)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="all, if none is named")
    parser.add_argument("--dtype", choices=DTYPES, help="this one alone")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memory", type=int, metavar="V")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak:
        return peak(int(args.peak[0]), args.peak[1])
    if args.memory:
        usual = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
        for way in HEAD_WAYS:
            command = [sys.executable, __file__, "--peak", str(args.memory), way]
            grown = subprocess.run(command, env=usual, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[-1]
            print(f"{way:32} {float(grown):6.2f} GB more at its peak, 512 x {args.memory} x 896 bf16")
        return None
    for case in args.cases or CASES:
        cases, dtypes = CASES[case]
        for dtype in dtypes:
            if args.dtype in (None, *(name for name, wanted in DTYPES.items() if wanted == dtype)):
                for name, ways in cases(dtype):
                    measure(f"{case} {str(dtype)[6:]} {name}", ways, args.rounds)
    return None


if __name__ == "__main__":
    main()
