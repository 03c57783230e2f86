"""torch_npu's nine names for our operators: torch.ops.npu.* and functions, on tensors of the device.

They do what the device does: its limits hold (unless GRADUS_LIMITS or gradus.options say off), and what it wants
contiguous is made so.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import gradus
import gradus.torch  # torch.ops.gradus
from gradus import _library

__all__: list[str] = []

_schemas = torch.library.Library("npu", "DEF")
_ops = torch.ops.gradus
_get_option = _library._c.gradusGetOption
_get_option.restype, _get_option.argtypes = ctypes.c_char_p, [ctypes.c_char_p]


def _as_on_the_device() -> Any:
    """The limits hold as they do for a program in C; gradus.torch lifts them where nobody has spoken of them."""
    return gradus.options(limits=_get_option(b"limits").decode())


def _operator(schema: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Defines torch.ops.npu.<name>, computed by the function for the device and for shapes alone."""

    def define(function: Callable[..., Any]) -> Callable[..., Any]:
        name = schema.partition("(")[0]

        def on_device(*args: Any, **kwargs: Any) -> Any:
            with _as_on_the_device():
                return function(*args, **kwargs)

        _schemas.define(schema)
        _schemas.impl(name, on_device, "PrivateUse1")
        torch.library.register_fake(f"npu::{name}", function, lib=_schemas)
        __all__.append(name)
        return getattr(torch.ops.npu, name)

    return define


def _gradient(name: str, save: Callable[..., None], backward: Callable[..., tuple[Tensor, ...]]) -> None:
    """save(ctx, result, *args, **kwargs) at the forward; backward(ctx, grad): gradients of the first arguments.

    torch.library.register_autograd would do, but for tensors that are keywords, such as atten_mask.
    """
    op = getattr(torch.ops.npu, name).default

    def forward(ctx: Any, kwargs: dict[str, Any], *args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            result = op(*args, **kwargs)
        save(ctx, result, *args, **kwargs)
        ctx.count = 1 + len(args)
        return result

    @torch.autograd.function.once_differentiable
    def gradient(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        gradients = backward(ctx, grad)
        return None, *gradients, *[None] * (ctx.count - 1 - len(gradients))

    members = {"forward": staticmethod(forward), "backward": staticmethod(gradient)}
    function = type(name, (torch.autograd.Function,), members)
    _schemas.impl(name, lambda *args, **kwargs: function.apply(kwargs, *args), "Autograd")


def _no_smoothing(value: float | None) -> None:
    if value:
        raise ValueError(f"label_smoothing: {value}, expected 0: the operator has no other")


# SwiGlu: the device wants all of it contiguous


@_operator("npu_swiglu(Tensor self, int dim=-1) -> Tensor")
def npu_swiglu(self: Tensor, dim: int = -1) -> Tensor:
    return _ops.swi_glu(self.contiguous(), dim)


@_operator("npu_swiglu_backward(Tensor grad_output, Tensor self, int dim=-1) -> Tensor")
def npu_swiglu_backward(grad_output: Tensor, self: Tensor, dim: int = -1) -> Tensor:
    return _ops.swi_glu_grad(grad_output.contiguous(), self.contiguous(), dim)


def _save_swiglu(ctx: Any, result: Tensor, self: Tensor, dim: int = -1) -> None:
    ctx.save_for_backward(self)
    ctx.dim = dim


def _swiglu_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    return (npu_swiglu_backward(grad, *ctx.saved_tensors, ctx.dim),)


_gradient("npu_swiglu", _save_swiglu, _swiglu_backward)


# ScaledMaskedSoftmax


def _mask_for(x: Tensor, mask: Tensor, fixed_triu_mask: bool) -> Tensor:
    """The given one, or, asked for a fixed one, all that lies above the diagonal."""
    if not fixed_triu_mask:
        return mask
    return torch.ones((1, 1, *x.shape[-2:]), dtype=torch.bool, device=x.device).triu(1)


@_operator("npu_scaled_masked_softmax(Tensor x, Tensor mask, Scalar scale=1, bool fixed_triu_mask=False) -> Tensor")
def npu_scaled_masked_softmax(x: Tensor, mask: Tensor, scale: float = 1, fixed_triu_mask: bool = False) -> Tensor:
    return _ops.scaled_masked_softmax(x, _mask_for(x, mask, fixed_triu_mask), float(scale))


@_operator("npu_scaled_masked_softmax_backward(Tensor y_grad, Tensor y, Tensor mask, Scalar scale, "
           "bool fixed_triu_mask) -> Tensor")
def npu_scaled_masked_softmax_backward(y_grad: Tensor, y: Tensor, mask: Tensor, scale: float,
                                       fixed_triu_mask: bool) -> Tensor:
    return _ops.scaled_masked_softmax_backward(y_grad, y, _mask_for(y, mask, fixed_triu_mask), float(scale))


def _save_softmax(ctx: Any, result: Tensor, x: Tensor, mask: Tensor, scale: float = 1,
                  fixed_triu_mask: bool = False) -> None:
    ctx.save_for_backward(result, mask)
    ctx.attributes = scale, fixed_triu_mask


def _softmax_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    return (npu_scaled_masked_softmax_backward(grad, *ctx.saved_tensors, *ctx.attributes),)


_gradient("npu_scaled_masked_softmax", _save_softmax, _softmax_backward)


# NsaSelectedAttention: sparse mode 2. Lengths that are missing may come as empty lists. As on the device, the forward
# is causal if there is a mask (whatever it holds), and the gradient always.


def _check_heads(query: Tensor, head_num: int) -> None:
    if head_num != query.shape[1]:
        raise ValueError(f"head_num: {head_num}, expected the heads of query, {query.shape[1]}")


@_operator("npu_nsa_select_attention(Tensor query, Tensor key, Tensor value, Tensor topk_indices, float scale_value, "
           "int head_num, int select_block_size, int select_block_count, *, Tensor? atten_mask=None, "
           "int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None) -> (Tensor, Tensor, Tensor)")
def npu_nsa_select_attention(query: Tensor, key: Tensor, value: Tensor, topk_indices: Tensor, scale_value: float,
                             head_num: int, select_block_size: int, select_block_count: int, *,
                             atten_mask: Tensor | None = None, actual_seq_qlen: list[int] | None = None,
                             actual_seq_kvlen: list[int] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    _check_heads(query, head_num)
    return _ops.nsa_selected_attention(query, key, value, topk_indices, scale_value, select_block_size,
                                       select_block_count, atten_mask is not None, actual_seq_qlen or None,
                                       actual_seq_kvlen or None)


@_operator("npu_nsa_select_attention_grad(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor attention_out, "
           "Tensor softmax_max, Tensor softmax_sum, Tensor topk_indices, float scale_value, int head_num, "
           "int select_block_size, int select_block_count, *, Tensor? atten_mask=None, int[]? actual_seq_qlen=None, "
           "int[]? actual_seq_kvlen=None) -> (Tensor, Tensor, Tensor)")
def npu_nsa_select_attention_grad(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, attention_out: Tensor,
                                  softmax_max: Tensor, softmax_sum: Tensor, topk_indices: Tensor, scale_value: float,
                                  head_num: int, select_block_size: int, select_block_count: int, *,
                                  atten_mask: Tensor | None = None, actual_seq_qlen: list[int] | None = None,
                                  actual_seq_kvlen: list[int] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    _check_heads(query, head_num)
    return _ops.nsa_selected_attention_grad(grad, query, key, value, attention_out, softmax_max, softmax_sum,
                                            topk_indices, scale_value, select_block_size, select_block_count, True,
                                            actual_seq_qlen or None, actual_seq_kvlen or None)


def _save_attention(ctx: Any, result: tuple[Tensor, Tensor, Tensor], query: Tensor, key: Tensor, value: Tensor,
                    topk_indices: Tensor, *attributes: Any, atten_mask: Tensor | None = None, **lengths: Any) -> None:
    ctx.save_for_backward(query, key, value, *result, topk_indices)
    ctx.attributes, ctx.lengths = attributes, lengths
    ctx.mark_non_differentiable(*result[1:])
    if atten_mask is None and any(x.requires_grad for x in (query, key, value)):
        warnings.warn("npu_nsa_select_attention without atten_mask: the forward sees all selected keys, the gradient "
                      "only those before the query, on the device too; pass a mask", stacklevel=2)


def _attention_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    return npu_nsa_select_attention_grad(grad, *ctx.saved_tensors, *ctx.attributes, **ctx.lengths)


_gradient("npu_nsa_select_attention", _save_attention, _attention_backward)


# The linear layer and the loss behind it, over a part of the vocabulary


@_operator("npu_fused_linear_online_max_sum(Tensor input, Tensor weight, Tensor target, int vocab_start_index, "
           "int vocab_end_index, bool return_logits=False) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)")
def npu_fused_linear_online_max_sum(input: Tensor, weight: Tensor, target: Tensor, vocab_start_index: int,
                                    vocab_end_index: int, return_logits: bool = False) -> tuple[Tensor, ...]:
    return _ops.fused_linear_online_max_sum(input, weight, target, vocab_start_index, vocab_end_index, return_logits)


@_operator("npu_fused_cross_entropy_loss_with_max_sum(Tensor logits_max, Tensor sum_exp_logits, "
           "Tensor predicted_logits, *, float? label_smoothing=0.0, Tensor? input=None, Tensor? weight=None, "
           "Tensor? vocab_parallel_logits=None) -> (Tensor, Tensor)")
def npu_fused_cross_entropy_loss_with_max_sum(logits_max: Tensor, sum_exp_logits: Tensor, predicted_logits: Tensor, *,
                                              label_smoothing: float | None = 0.0, input: Tensor | None = None,
                                              weight: Tensor | None = None,
                                              vocab_parallel_logits: Tensor | None = None) -> tuple[Tensor, Tensor]:
    _no_smoothing(label_smoothing)
    return _ops.fused_cross_entropy_loss_with_max_sum(logits_max, sum_exp_logits, predicted_logits,
                                                      vocab_parallel_logits)


@_operator("npu_fused_linear_cross_entropy_loss_with_max_sum_backward(Tensor grad, Tensor input, Tensor weight, "
           "Tensor target_mask, Tensor masked_target, float label_smoothing=0.0, Tensor? logits_max=None, "
           "Tensor? sum_exp_logits=None, Tensor? softmax=None) -> (Tensor, Tensor)")
def npu_fused_linear_cross_entropy_loss_with_max_sum_backward(
        grad: Tensor, input: Tensor, weight: Tensor, target_mask: Tensor, masked_target: Tensor,
        label_smoothing: float = 0.0, logits_max: Tensor | None = None, sum_exp_logits: Tensor | None = None,
        softmax: Tensor | None = None) -> tuple[Tensor, Tensor]:
    _no_smoothing(label_smoothing)
    return _ops.fused_linear_cross_entropy_loss_grad(grad, input, weight, target_mask, masked_target, logits_max,
                                                     sum_exp_logits, softmax)
