"""The operators as functions of tensors: differentiable, and traced by torch.compile as one node each."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gradus._operators import cumulative_lengths

from . import _ops  # noqa: F401  registers torch.ops.gradus

_swi_glu: Callable[[Tensor, int], Tensor] = torch.ops.gradus.swi_glu.default
_swi_glu_grad: Callable[[Tensor, Tensor, int], Tensor] = torch.ops.gradus.swi_glu_grad.default
_exp_segsum: Callable[[Tensor], Tensor] = torch.ops.gradus.exp_segsum.default
_scaled_masked_softmax: Callable[[Tensor, Tensor, float], Tensor] = torch.ops.gradus.scaled_masked_softmax.default
_nsa_selected_attention: Callable[..., tuple[Tensor, Tensor, Tensor]] = torch.ops.gradus.nsa_selected_attention.default


def swiglu(x: Tensor, dim: int = -1) -> Tensor:
    """silu(a) * b of the two halves of x along dim: `a, b = x.chunk(2, dim)`."""
    return _swi_glu(x, dim)


def silu_mul(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) * up, of equal shapes.

    Where gate and up lie side by side in one storage (`gate, up = x.chunk(2, dim)`) they are read where they are;
    otherwise, and in compiled code, they are copied together first.
    """
    if gate.shape != up.shape:
        raise ValueError(f"silu_mul: up has shape {tuple(up.shape)}, expected that of gate, {tuple(gate.shape)}")
    if torch.compiler.is_compiling() or (dim := _side_by_side(gate, up)) is None:
        return _swi_glu(torch.cat((gate, up), -1), -1)
    if torch.is_grad_enabled() and (gate.requires_grad or up.requires_grad):
        result: Tensor = _SiluMul.apply(gate, up, dim)
        return result
    return _swi_glu(_joined(gate, dim), dim)


def exp_segsum(a: Tensor) -> Tensor:
    """exp of the sums of all segments of a [..., T]: y[..., i, j] = exp(a[j+1] + ... + a[i]), 0 for j > i; [..., T, T].

    Up to four dimensions.
    """
    missing = 3 - a.dim()
    return _exp_segsum(a) if missing <= 0 else _exp_segsum(a[(None,) * missing])[(0,) * missing]


def scaled_masked_softmax(x: Tensor, mask: Tensor, scale: float = 1.0) -> Tensor:
    """softmax of scale * x [B, N, S, T] over T, with -10000 where mask (bool) is true.

    mask is broadcast to x, and never copied for it; x may have fewer dimensions. A row that is masked as a whole is
    uniform.
    """
    missing = 4 - x.dim()
    if missing > 0:
        return scaled_masked_softmax(x[(None,) * missing], mask, scale)[(0,) * missing]
    if mask.dim() < 4:
        mask = mask[(None,) * (4 - mask.dim())]
    if mask.shape[2:] != x.shape[2:] and missing == 0:
        mask = mask.expand(-1, -1, *x.shape[2:])
    return _scaled_masked_softmax(x, mask, scale)


def nsa_selected_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk_indices: Tensor,
    *,
    scale: float,
    block_size: int = 64,
    block_count: int = 16,
    causal: bool = True,
    seq_q: Sequence[int] | Tensor | None = None,
    seq_kv: Sequence[int] | Tensor | None = None,
) -> Tensor:
    """Attention of query [T1, N1, D] over selected blocks of key [T2, N2, D] and value [T2, N2, Dv]; [T1, N1, Dv].

    topk_indices [T1, N2, block_count] (int32, or int64 to be converted) names blocks of block_size keys inside the
    query's own sequence; seq_q and seq_kv are the ends of the packed sequences, with or without a leading 0. causal:
    a query sees keys up to its own place in the sequence. f16 and bf16.

    The gradient does not use the rounded output: it finds sum(P * dP) from P and dP, which is about ten times nearer to
    the exact one in bf16, and keeps less for the backward.
    """
    ends_q, ends_kv = cumulative_lengths(*(s.tolist() if isinstance(s, Tensor) else s for s in (seq_q, seq_kv)))
    indices = topk_indices.to(torch.int32)
    return _nsa_selected_attention(
        query, key, value, indices, scale, block_size, block_count, causal, ends_q, ends_kv
    )[0]


def _side_by_side(gate: Tensor, up: Tensor) -> int | None:
    """The dim along which up begins in memory where gate ends."""
    strides = gate.stride()
    if not torch._C._is_alias_of(gate, up) or strides != up.stride() or gate.dtype != up.dtype:
        return None
    gap = up.storage_offset() - gate.storage_offset()
    for dim, (size, stride) in enumerate(zip(gate.shape, strides)):
        if gap == size * stride:
            return dim
    return None


def _joined(gate: Tensor, dim: int) -> Tensor:
    """gate and what follows it along dim."""
    shape = list(gate.shape)
    shape[dim] *= 2
    return gate.as_strided(shape, gate.stride())


class _SiluMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor, dim: int) -> Tensor:
        ctx.save_for_backward(gate, up)
        return _swi_glu(_joined(gate, dim), dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        gate, up = ctx.saved_tensors
        dim = _side_by_side(gate, up)  # no more, where a hook has moved what was saved
        x, dim = (torch.cat((gate, up), -1), -1) if dim is None else (_joined(gate, dim), dim)
        gate_grad, up_grad = _swi_glu_grad(grad, x, dim).chunk(2, dim)
        return gate_grad, up_grad, None
