"""What every rank of test_head_distributed.py runs: all cases, results into a file."""

from __future__ import annotations

import importlib
import os
from datetime import timedelta
from typing import Any

import head_reference  # noqa: F401  sets what torch wants set before it is used
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from gradus.torch import distributed, linear_cross_entropy

TOKENS, HIDDEN = 37, 24
# Where the vocabulary is cut, for R ranks. `even` leaves the ranges to the function, `dtensor` and `few` to DTensor.
CUTS = {
    1: {"even": [0, 120], "uneven": [0, 121], "no_target": [0, 120], "dtensor": [0, 121], "few": [0, 1]},
    2: {
        "even": [0, 60, 120],
        "uneven": [0, 7, 121],
        "no_target": [0, 50, 120],
        "dtensor": [0, 61, 121],
        "few": [0, 1, 1],
    },
    3: {
        "even": [0, 40, 80, 120],
        "uneven": [0, 1, 88, 121],
        "no_target": [0, 50, 70, 120],
        "dtensor": [0, 41, 82, 121],
        "few": [0, 1, 2, 2],
    },
}
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
BIAS_ROWS = 25  # a copy of so many words at a time


def problem(words: int, dtype: torch.dtype, below: int | None = None) -> tuple[torch.Tensor, ...]:
    """The same on all ranks. below: all targets are smaller."""
    torch.manual_seed(words)
    x = torch.randn(TOKENS, HIDDEN).to(dtype)
    weight = (torch.randn(words, HIDDEN) / 2).to(dtype)
    if words < 3:  # logits far below 0: a rank without words must not bring a maximum of its own
        x, weight = x.abs(), -20 * weight.abs()
    bias = torch.randn(words).to(dtype)
    target = torch.randint(0, below or words, (TOKENS,))
    target[2::7] = -100
    return x, weight, bias, target


def targets_below(case: str, cuts: list[int]) -> int | None:
    return cuts[1] if case == "no_target" else None


def run_case(case: str, cuts: list[int], dtype: torch.dtype, with_bias: bool) -> dict[str, Any]:
    rank, group = dist.get_rank(), dist.group.WORLD
    x, weight, bias, target = problem(cuts[-1], dtype, targets_below(case, cuts))
    x.requires_grad_()
    where: dict[str, Any] = {}
    if case in ("dtensor", "few"):
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        weight, bias = (torch.nn.Parameter(distribute_tensor(value, mesh, [Shard(0)])) for value in (weight, bias))
    else:
        first, end = cuts[rank], cuts[rank + 1]
        weight, bias = (value[first:end].clone().requires_grad_() for value in (weight, bias))
        where = {"group": group} if case == "even" else {"group": group, "vocab_range": (first, end)}
    loss, lse = linear_cross_entropy(x, weight, target, bias=bias if with_bias else None, return_lse=True, **where)
    (loss + 0.25 * lse.mean()).backward()
    gradients = [weight.grad, bias.grad if with_bias else None]
    if case in ("dtensor", "few"):
        gradients = [None if g is None else _local(g) for g in gradients]
    return {"loss": loss.detach(), "lse": lse.detach(), "input": x.grad, "weight": gradients[0], "bias": gradients[1]}


def _local(gradient: Any) -> torch.Tensor:
    assert tuple(gradient.placements) == (Shard(0),), gradient.placements
    return gradient.to_local()


def refusals() -> list[str]:
    """Every rank must hear of a target that no rank, or more than one, has."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x, weight, _, target = problem(30, torch.bfloat16)
    words = []
    for first in (rank * 30 + 1, 0):  # word 0 is nobody's; words are everybody's
        target[0] = 0
        try:
            linear_cross_entropy(x, weight, target, group=dist.group.WORLD, vocab_range=(first, first + 30))
            words.append("taken")
        except IndexError as error:
            words.append(str(error))
    try:
        linear_cross_entropy(x, weight, target, group=dist.group.WORLD, vocab_range=(0, 29))
    except ValueError as error:
        words.append(str(error))
    assert size == 1 or words[1] != "taken"
    return words


def wide_sum() -> torch.Tensor:
    """256 + 1 + 1: a sum that rounds to bf16 at every hop stays 256."""
    value = torch.full((1000,), 256.0 if dist.get_rank() == 0 else 1.0, dtype=torch.bfloat16)
    return distributed.sum_wide(value, dist.group.WORLD)


def compiled() -> dict[str, torch.Tensor]:
    x, weight, _, target = problem(60, torch.bfloat16)
    first = dist.get_rank() * 60 // dist.get_world_size()
    end = (dist.get_rank() + 1) * 60 // dist.get_world_size()
    results = {}
    for name, wrap in (("eager", lambda f: f), ("compiled", lambda f: torch.compile(f, fullgraph=True))):
        leaves = x.clone().requires_grad_(), weight[first:end].clone().requires_grad_()
        where = {"group": dist.group.WORLD, "vocab_range": (first, end)}
        loss = wrap(linear_cross_entropy)(*leaves, target, reduction="sum", **where)
        loss.backward()
        results |= {f"{name} loss": loss.detach(), f"{name} input": leaves[0].grad, f"{name} weight": leaves[1].grad}
    return results


def run(rank: int, size: int, folder: str) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    implementation = importlib.import_module("gradus.torch.linear_cross_entropy")
    implementation._PANEL_BYTES = BIAS_ROWS * 2 * (HIDDEN + 1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size, timeout=timedelta(seconds=60)
    )
    results: dict[str, Any] = {
        f"{case} {dtype} {bias}": run_case(case, cuts, DTYPES[dtype], bias)
        for case, cuts in CUTS[size].items()
        for dtype in DTYPES
        for bias in (False, True)
    }
    results["refusals"] = refusals()
    results["wide_sum"] = wide_sum()
    results["compiled"] = compiled() if size == 2 else None
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()
