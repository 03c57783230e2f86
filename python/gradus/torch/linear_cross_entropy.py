"""An LM head with its cross entropy: the loss of input·weightᵀ + bias, and its gradients; no logits are kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Tensor

from . import distributed

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

# A bias makes copies of so many bytes of weight at a time.
_PANEL_BYTES = 32 << 20


@overload
def linear_cross_entropy(
    input: Tensor, weight: Tensor, target: Tensor, *, bias: Tensor | None = None, reduction: str = "mean",
    ignore_index: int = -100, return_lse: Literal[False] = False, group: ProcessGroup | None = None,
    vocab_range: tuple[int, int] | None = None,
) -> Tensor: ...
@overload
def linear_cross_entropy(
    input: Tensor, weight: Tensor, target: Tensor, *, bias: Tensor | None = None, reduction: str = "mean",
    ignore_index: int = -100, return_lse: bool, group: ProcessGroup | None = None,
    vocab_range: tuple[int, int] | None = None,
) -> Tensor | tuple[Tensor, Tensor]: ...
def linear_cross_entropy(
    input: Tensor,
    weight: Tensor,
    target: Tensor,
    *,
    bias: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    return_lse: bool = False,
    group: ProcessGroup | None = None,
    vocab_range: tuple[int, int] | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """cross_entropy(input @ weight.T + bias, target), in float32; nothing of the size of the logits is kept.

    input [..., H] and weight [V, H] are bfloat16 or float16, bias [V] the same; under autocast, float32 is cast.
    target [...] is int64 or int32. A row whose target is ignore_index has loss 0, lse 0 and no gradient; `mean` is over
    the others. return_lse gives (loss, lse) with lse [...] = log Σ exp(logit), differentiable as well: a z-loss is
    `z * lse.square().mean()`.

    In bfloat16, reduced to one number, without bias, group and lse, the gradients are made with the loss, which saves a
    product of four; where none are wanted, torch.no_grad() saves their two. They hold for a factor behind the loss that
    is a power of two and are made again for another one; under torch.compile they are multiplied, which rounds once more.

    group: weight (and bias) are this rank's rows of a vocabulary that the ranks of the group share, from
    rank·V on or as vocab_range = (first, end) says; input and target are the same on all ranks, and so are, bit by bit,
    the loss and the gradient of input. A DTensor weight with Shard(0) brings its group and range along.
    """
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f'linear_cross_entropy: reduction is {reduction!r}, expected "none", "sum" or "mean"')
    shard = distributed.shard_of(weight, bias, group, vocab_range)
    input, weight, bias = _operands(input, shard.weight, shard.bias)
    _check(input, weight, bias, target)
    labels = target.reshape(-1)
    counted = labels != ignore_index
    if shard.group is None:
        inside = (labels >= 0) & (labels < weight.shape[0])
        distributed.require(inside | ~counted, labels, f"0 to {weight.shape[0] - 1}, or ignore_index {ignore_index}")
    rows = input.reshape(labels.shape[0], input.shape[-1])
    with torch.autocast(_autocast_device(input), enabled=False):
        if not return_lse and _takes_gradients_at_once(rows, weight, bias, shard.group, reduction):
            return _apply_at_once(rows, weight, labels, counted, reduction == "mean")
        results = _apply(rows, weight, bias, labels, counted, shard.start, shard.group)
        # The selection also stops the gradients of rows that do not count.
        loss, lse = (torch.where(counted, value, 0) for value in results)
        if reduction == "none":
            loss = loss.reshape(target.shape)
        else:
            loss = loss.sum() if reduction == "sum" else loss.sum() / counted.sum()
    return (loss, lse.reshape(target.shape)) if return_lse else loss


def autocast_dtype(value: Tensor) -> torch.dtype:
    """What autocast makes of a floating-point operand of a product: where it is on, and of float64 never anything."""
    device = _autocast_device(value)
    kept = value.dtype == torch.float64 or not torch.is_autocast_enabled(device)
    return value.dtype if kept else torch.get_autocast_dtype(device)


def _autocast_device(value: Tensor) -> str:
    return "cpu" if value.is_meta else value.device.type  # autocast knows no meta


def _operands(input: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """As autocast wants them, where it is on; float32 is never rounded silently."""
    input, weight = input.to(autocast_dtype(input)), weight.to(autocast_dtype(weight))
    bias = None if bias is None else bias.to(autocast_dtype(bias))
    if input.dtype == torch.float32:
        raise TypeError(
            "linear_cross_entropy: input is float32, expected bfloat16 or float16; float32 is cast only under "
            f'torch.autocast("{_autocast_device(input)}", torch.bfloat16)'
        )
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and value.dtype != input.dtype:
            raise TypeError(f"linear_cross_entropy: {name} is {value.dtype}, expected {input.dtype} as input")
    return input, weight, bias


def _check(input: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor) -> None:
    if target.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"linear_cross_entropy: target is {target.dtype}, expected int64 or int32")
    if weight.dim() != 2 or input.dim() < 1 or input.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"linear_cross_entropy: input {list(input.shape)} and weight {list(weight.shape)}, "
            "expected [..., H] and [V, H]"
        )
    if target.shape != input.shape[:-1]:
        raise ValueError(
            f"linear_cross_entropy: target {list(target.shape)}, expected {list(input.shape[:-1])} as input has it"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"linear_cross_entropy: bias {list(bias.shape)}, expected {list(weight.shape[:1])}")


class _LinearCrossEntropy(torch.autograd.Function):
    """(loss, lse) of every row. Kept for backward: the operands, where the targets are, and two numbers a row."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        counted: Tensor,
        start: int,
        group: ProcessGroup | None,
    ) -> tuple[Tensor, Tensor]:
        top, total, predicted, mask, place = _statistics(x, weight, bias, target, start)
        if group is not None:
            owned = (target >= start) & (target < start + weight.shape[0])
            top, total, predicted, owners = distributed.reduce_statistics(top, total, predicted, owned, group)
            distributed.require((owners == 1) | ~counted, target, "one rank's vocab_range, or ignore_index")
        loss, _ = torch.ops.gradus.fused_cross_entropy_loss_with_max_sum(top, total, predicted, None)
        ctx.save_for_backward(x, weight, bias, mask, place, top, total)
        ctx.group = group
        return loss, top + total.log()

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, grad_lse: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, mask, place, top, total = ctx.saved_tensors
        with torch.autocast(_autocast_device(x), enabled=False):
            grad, total, place = _one_factor(grad_loss, grad_lse, total, place)
            dx, dweight, dbias = _gradients(grad, x, weight, bias, mask, place, top, total)
            if ctx.group is not None and ctx.needs_input_grad[0]:
                dx = distributed.sum_wide(dx, ctx.group)
        return dx.to(x.dtype), dweight, dbias, None, None, None, None


_apply: Callable[..., tuple[Tensor, Tensor]] = _LinearCrossEntropy.apply


def _takes_gradients_at_once(
    x: Tensor, weight: Tensor, bias: Tensor | None, group: ProcessGroup | None, reduction: str
) -> bool:
    """Where one number will multiply all gradients; not in float16, where it may be the scale that keeps small ones from
    being rounded to 0 on the way."""
    plain = reduction != "none" and bias is None and group is None and weight.shape[0] > 0
    wanted = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    return plain and wanted and x.dtype == torch.bfloat16


class _LossWithGradients(torch.autograd.Function):
    """The loss and, at the same time, its gradients: three products instead of four. What comes from behind multiplies
    them where that is exact, by a power of two; for anything else they are made again, from the operands."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, target: Tensor, counted: Tensor, mean: bool) -> Tensor:
        count = counted.sum()
        share = torch.where(counted, 1 / count if mean else 1.0, 0.0)
        top, total, predicted, dx, dweight = torch.ops.gradus.linear_cross_entropy_with_grad(share, x, weight, target)
        losses, _ = torch.ops.gradus.fused_cross_entropy_loss_with_max_sum(top, total, predicted, None)
        ctx.save_for_backward(x, weight, target, share, top, total, dx, dweight)
        loss = torch.where(counted, losses, 0).sum()
        return loss / count if mean else loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, target, share, top, total, dx, dweight = ctx.saved_tensors
        if torch.compiler.is_compiling():  # no look at numbers: in float32, which rounds once more
            scaled = ((gradient.float() * grad).to(gradient.dtype) for gradient in (dx, dweight))
            return *scaled, None, None, None
        factor = grad.item()
        # With create_graph, the operator of the gradient records that it has no derivative itself.
        if abs(math.frexp(factor)[0]) == 0.5 and not torch.is_grad_enabled():
            scaled = (gradient if factor == 1 else gradient * factor for gradient in (dx, dweight))
            return *scaled, None, None, None
        with torch.autocast(_autocast_device(x), enabled=False):
            nobody = target.new_zeros((target.shape[0] + 7) // 8, dtype=torch.uint8)  # is elsewhere
            return *_gradients(share * grad, x, weight, None, nobody, target, top, total)[:2], None, None, None


_apply_at_once: Callable[..., Tensor] = _LossWithGradients.apply


def _panels(x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Iterator[tuple[int, Tensor]]]:
    """x, and the weight as parts with their first row: all of it, or with the bias as one more column of a copied part,
    of ones in x."""
    if bias is None:
        return x, iter([(0, weight)])
    count = max(1, _PANEL_BYTES // (weight.element_size() * (weight.shape[1] + 1)))
    parts = (
        (first, torch.cat([weight[first : first + count], bias[first : first + count, None]], 1))
        for first in range(0, weight.shape[0], count)
    )
    return torch.cat([x, x.new_ones(x.shape[0], 1)], 1), parts


def _statistics(x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, start: int) -> tuple[Tensor, ...]:
    """Maximum, Σ exp, predicted logit − maximum; which rows have no target here (bits), where the others have it."""
    if weight.shape[0] == 0:  # a rank without words
        top = torch.full_like(target, float("-inf"), dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)
        mask = target.new_full(((target.shape[0] + 7) // 8,), 255, dtype=torch.uint8)
        return top, torch.zeros_like(top), torch.zeros_like(top), mask, torch.zeros_like(target)
    online = torch.ops.gradus.fused_linear_online_max_sum
    if bias is None:
        return tuple(online(x, weight, target, start, start + weight.shape[0], False)[:5])
    x, panels = _panels(x, weight, bias)
    parts = [
        (*online(x, part, target, start + first, start + first + part.shape[0], False)[:4], first, part.shape[0])
        for first, part in panels
    ]
    top, mask = parts[0][0], parts[0][3]
    for part in parts[1:]:
        top, mask = torch.maximum(top, part[0]), mask & part[3]
    total, predicted = torch.zeros_like(top), torch.zeros_like(top)
    for part_top, part_sum, part_predicted, _, first, count in parts:
        owned = (target >= start + first) & (target < start + first + count)
        rebased = distributed.rebase(part_top, part_sum, part_predicted, owned, top)
        total, predicted = total + rebased[0], predicted + rebased[1]
    owned = (target >= start) & (target < start + weight.shape[0])
    return top, total, predicted, mask, torch.where(owned, target - start, 0)


def _one_factor(grad_loss: Tensor, grad_lse: Tensor, total: Tensor, place: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The operator multiplies (softmax − onehot) by one factor a row; wanted is both·softmax − grad_loss·onehot,
    both = grad_loss + grad_lse. So grad_loss is the factor, and softmax grows by both/grad_loss through its divisor.
    Where there is next to no grad_loss, `both` is the factor, and a place outside the vocabulary takes the onehot away.
    """
    both = grad_loss + grad_lse
    alone = grad_loss.abs() <= both.abs() * 2.0**-100
    factor = torch.where(alone, both, grad_loss)
    return factor, torch.where(alone, total, total * (grad_loss / both)), torch.where(alone, -1, place)


def _gradients(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Tensor,
    place: Tensor,
    top: Tensor,
    total: Tensor,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """dx (in float32 where it is a sum of several), dweight, dbias."""
    loss_grad = torch.ops.gradus.fused_linear_cross_entropy_loss_grad
    if bias is None:
        return *loss_grad(grad, x, weight, mask, place, top, total, None), None
    hidden = weight.shape[1]
    dx, dweight, dbias = torch.zeros_like(x, dtype=top.dtype), torch.empty_like(weight), torch.empty_like(bias)
    x, panels = _panels(x, weight, bias)
    for first, part in panels:
        # A place in another part is outside of this one's rows, and subtracts nothing.
        part_dx, part_dweight = loss_grad(grad, x, part, mask, place - first, top, total, None)
        dx += part_dx[:, :hidden]
        dweight[first : first + part.shape[0]] = part_dweight[:, :hidden]
        dbias[first : first + part.shape[0]] = part_dweight[:, hidden]
    return dx, dweight, dbias
