"""torch.nn modules over the operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .functional import exp_segsum, nsa_selected_attention, scaled_masked_softmax, swiglu
from .linear_cross_entropy import linear_cross_entropy

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class SwiGLUMLP(nn.Module):
    """down(silu(gate(x)) * up(x)): gate and up are one product, [..., H] → [..., 2I], and nothing is split or copied.

    gate_up_proj.weight [2I, H] has the gate in its first half.
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(hidden_size, 2 * intermediate_size, bias=bias, device=device, dtype=dtype)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=bias, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(swiglu(self.gate_up_proj(x)))
        return y


class LinearCrossEntropyLoss(nn.Module):
    """An LM head that gives the loss and no logits; arguments and state_dict as torch.nn.LinearCrossEntropyLoss.

    With a group, num_classes are this rank's rows. To use a head that is there, tied or not: `loss.linear = lm_head`.
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        reduction: str = "mean",
        ignore_index: int = -100,
        return_lse: bool = False,
        group: ProcessGroup | None = None,
        vocab_range: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, num_classes, bias=bias, device=device, dtype=dtype)
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.return_lse = return_lse
        self.group = group
        self.vocab_range = vocab_range

    def forward(self, input: Tensor, target: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        return linear_cross_entropy(
            input,
            self.linear.weight,
            target,
            bias=self.linear.bias,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            return_lse=self.return_lse,
            group=self.group,
            vocab_range=self.vocab_range,
        )

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}, ignore_index={self.ignore_index}"


class ScaledMaskedSoftmax(nn.Module):
    """softmax(scale·x) over the last dim of [B, N, S, T], −10000 where mask is true."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return scaled_masked_softmax(x, mask, self.scale)

    def extra_repr(self) -> str:
        return f"scale={self.scale}"


class NSASelectedAttention(nn.Module):
    """Attention of every query over its own selected blocks of keys. scale None: 1/√D."""

    def __init__(
        self, scale: float | None = None, block_size: int = 64, block_count: int = 16, causal: bool = True
    ) -> None:
        super().__init__()
        self.scale = scale
        self.block_size = block_size
        self.block_count = block_count
        self.causal = causal

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        topk_indices: Tensor,
        seq_q: Sequence[int] | Tensor | None = None,
        seq_kv: Sequence[int] | Tensor | None = None,
    ) -> Tensor:
        return nsa_selected_attention(
            query,
            key,
            value,
            topk_indices,
            scale=query.shape[-1] ** -0.5 if self.scale is None else self.scale,
            block_size=self.block_size,
            block_count=self.block_count,
            causal=self.causal,
            seq_q=seq_q,
            seq_kv=seq_kv,
        )

    def extra_repr(self) -> str:
        return f"scale={self.scale}, block_size={self.block_size}, block_count={self.block_count}, causal={self.causal}"


class ExpSegsum(nn.Module):
    """[..., T] → [..., T, T]: exp of the sums of all segments, 0 above the diagonal."""

    def forward(self, a: Tensor) -> Tensor:
        return exp_segsum(a)
