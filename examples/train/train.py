#!/usr/bin/env python3
"""Trains a small language model on the CPU, with PyTorch's operators or with Gradus'.

    train.py llama --impl gradus                            one run: loss, tokens/s, peak memory
    torchrun --standalone --nproc-per-node 2 train.py llama --impl gradus --tp 2
                                                            the same, the vocabulary shared by two processes
bf16 autocast over f32 weights, AdamW; --impl f64 is PyTorch in double throughout, to compare both with. compare.py runs
all of them and draws the curves.
"""

import argparse
import contextlib
import json
import os
import resource
import statistics
import time

import torch

import data
from models import MIXERS, Model
from operators import Gradus, Torch

# Steps until the learning rate is whole. AdamW divides its first steps by the size of the first gradients, so that a last
# bit of those near zero is a whole step of the rate.
WARM_UP = 20


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MIXERS)
    parser.add_argument("--impl", choices=("torch", "gradus", "f64"), default="gradus")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--tp", type=int, default=1, help="processes that share the vocabulary (under torchrun)")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, help="sequences a step, where not the model's own number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="write losses, tokens/s and memory there")
    parser.add_argument("--profile", action="store_true", help="print where the time of the last steps went")
    return parser.parse_args()


def shard(tp: int) -> "tuple[torch.distributed.ProcessGroup | None, slice]":
    """The group that shares the vocabulary, and which rows of it are ours."""
    if tp == 1:
        return None, slice(None)
    if int(os.environ.get("WORLD_SIZE", "1")) != tp:
        raise SystemExit(f"--tp {tp} needs as many processes: torchrun --nproc-per-node {tp} train.py …")
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    return torch.distributed.group.WORLD, slice(data.VOCABULARY * rank // tp, data.VOCABULARY * (rank + 1) // tp)


def build(args: argparse.Namespace) -> torch.nn.Module:
    group, rows = shard(args.tp)
    if args.tp > 1 and args.impl != "gradus":
        raise SystemExit("--tp: only with --impl gradus")
    torch.manual_seed(args.seed)
    model = Model(args.model, Gradus(group) if args.impl == "gradus" else Torch(), data.VOCABULARY, rows)
    return model.double() if args.impl == "f64" else model


def train(args: argparse.Namespace) -> dict:
    model = build(args)
    batch = args.batch or model.batch
    step_of = torch.compile(model) if args.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=model.rate, weight_decay=0.1, fused=True)
    lower = contextlib.nullcontext() if args.impl == "f64" else torch.autocast("cpu", torch.bfloat16)
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / WARM_UP, total_iters=WARM_UP)
    losses, seconds = [], []
    profiler = torch.profiler.profile() if args.profile else contextlib.nullcontext()
    for step, (tokens, target) in zip(range(args.steps), data.batches(batch, model.length, args.seed)):
        if args.profile and step == args.steps - 3:
            profiler.__enter__()
        start = time.perf_counter()
        with lower:
            loss = step_of(tokens, target)
        loss.backward()
        optimizer.step()
        warm_up.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
        if args.tp == 1 or torch.distributed.get_rank() == 0:
            print(f"step {step + 1}: loss {losses[-1]:.4f}, {seconds[-1]:.2f} s", flush=True)
    if args.profile:
        profiler.__exit__(None, None, None)
        print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=20))
    warm = seconds[min(5, len(seconds) - 1) :]
    return {
        "model": args.model,
        "impl": args.impl + (" compiled" if args.compile else "") + (f" tp {args.tp}" if args.tp > 1 else ""),
        "tokens_per_second": batch * model.length / statistics.median(warm),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "losses": losses,
    }


def main() -> None:
    args = arguments()
    result = train(args)
    if args.tp > 1 and torch.distributed.get_rank() != 0:
        return
    print(
        f"{result['model']} {result['impl']}: {result['tokens_per_second']:.0f} tokens/s, "
        f"peak {result['peak_bytes'] / 1e9:.2f} GB, loss {result['losses'][-1]:.4f} after {args.steps} steps"
    )
    if args.json:
        with open(args.json, "w") as file:
            json.dump(result, file)


if __name__ == "__main__":
    main()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
