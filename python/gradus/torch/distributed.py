"""Vocabulary-parallel cross entropy: what the ranks of a group tell each other."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class Shard(NamedTuple):
    """This rank's rows of the vocabulary, [start, start + len(weight)); group None: all there are."""

    weight: Tensor
    bias: Tensor | None
    start: int
    group: ProcessGroup | None


def shard_of(
    weight: Tensor, bias: Tensor | None, group: ProcessGroup | None, vocab_range: tuple[int, int] | None
) -> Shard:
    if _is_dtensor(weight):
        if group is not None or vocab_range is not None:
            raise ValueError("linear_cross_entropy: group and vocab_range come with a DTensor weight, expected None")
        return _shard_of_dtensor(weight, bias)
    if _is_dtensor(bias):
        raise TypeError("linear_cross_entropy: bias is a DTensor and weight is not, expected both or none")
    if group is None:
        if vocab_range is not None:
            raise ValueError("linear_cross_entropy: vocab_range without group, expected the group that shares the rest")
        return Shard(weight, bias, 0, None)
    if vocab_range is None:
        return Shard(weight, bias, dist.get_rank(group) * weight.shape[0], group)
    start, end = vocab_range
    if start < 0 or end - start != weight.shape[0]:
        raise ValueError(
            f"linear_cross_entropy: vocab_range {vocab_range}, expected the {weight.shape[0]} rows of weight"
        )
    return Shard(weight, bias, start, group)


def _is_dtensor(value: object) -> bool:
    # Not imported unless somebody has: a DTensor cannot be there otherwise, and the import takes its time.
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def _shard_of_dtensor(weight: Any, bias: Any) -> Shard:
    mesh = weight.device_mesh
    if mesh.ndim != 1 or not weight.placements[0].is_shard(0):
        raise ValueError(
            f"linear_cross_entropy: weight is a DTensor placed {weight.placements}, "
            "expected Shard(0) on a mesh of one dim"
        )
    if bias is not None:
        if not _is_dtensor(bias) or bias.device_mesh != mesh or bias.placements != weight.placements:
            raise ValueError("linear_cross_entropy: bias, expected a DTensor that is placed as weight is")
        bias = bias.to_local(grad_placements=bias.placements)
    # DTensor cuts as torch.chunk does: equal parts, rounded up, from the first rank on.
    part = -(-weight.shape[0] // mesh.size())
    start = min(part * mesh.get_local_rank(), weight.shape[0])
    return Shard(weight.to_local(grad_placements=weight.placements), bias, start, mesh.get_group())


def rebase(top: Tensor, total: Tensor, predicted: Tensor, owned: Tensor, new_top: Tensor) -> tuple[Tensor, Tensor]:
    """Σ exp and predicted of a part of the vocabulary, relative to the maximum of all of it."""
    down = top - new_top
    return total * down.exp(), torch.where(owned, predicted + down, 0)


def reduce_statistics(
    top: Tensor, total: Tensor, predicted: Tensor, owned: Tensor, group: ProcessGroup
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The statistics of all shards together, and how many of them have the row's target; the same bits everywhere."""
    if top.shape[0] == 0:
        return top, total, predicted, owned.to(top.dtype)
    whole_top = top.clone()
    dist.all_reduce(whole_top, dist.ReduceOp.MAX, group=group)
    total, predicted = rebase(top, total, predicted, owned, whole_top)
    sums = torch.cat([total, predicted, owned.to(top.dtype)])
    dist.all_reduce(sums, dist.ReduceOp.SUM, group=group)
    total, predicted, owners = sums.chunk(3)
    return whole_top, total, predicted, owners


def sum_wide(value: Tensor, group: ProcessGroup) -> Tensor:
    """Σ over the ranks in float32: backends round a 16-bit sum at every hop."""
    wide = value.to(torch.promote_types(value.dtype, torch.float32))
    if wide.numel() != 0:
        dist.all_reduce(wide, dist.ReduceOp.SUM, group=group)
    return wide


def require(good: Tensor, target: Tensor, wanted: str) -> None:
    """An error where a target is not good; of compiled code, one that cannot name the target."""
    if torch.compiler.is_compiling() or target.is_meta:
        torch._assert_async(good.all(), f"linear_cross_entropy: a target is out of range, expected {wanted}")
    elif not good.all():
        row = int((~good).nonzero()[0])
        raise IndexError(f"linear_cross_entropy: target {int(target[row])} of row {row}, expected {wanted}")
