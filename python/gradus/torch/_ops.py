"""torch.ops.gradus.*: loads the extension and gives its operators fakes, gradients and autocast."""

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gradus import _library  # noqa: F401  libgradus.so: the extension finds by its name what is loaded here

_path = str(Path(__file__).with_name("_torch.so"))
try:
    torch.ops.load_library(_path)
except OSError as error:
    raise ImportError(
        f"gradus.torch: {_path} does not load into PyTorch {torch.__version__}; it takes 2.10 or later, and a package "
        f"that was built with PyTorch ({error})"
    ) from error
_extension = ctypes.CDLL(_path)
_kernels = torch.library.Library("gradus", "IMPL")
_below_autograd = torch._C._AutoDispatchBelowAutograd
_ops = torch.ops.gradus


def use_torch_threads(on: bool) -> None:
    """Run the loops of all operators on PyTorch's own threads (`torch.set_num_threads`), or on the library's."""
    _extension.gradus_use_torch_threads(int(on))


# Fakes: shapes and dtypes without data, for meta tensors and torch.compile. Every result is contiguous.


def _fake(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    register: Callable[[Callable[..., Any]], Callable[..., Any]] = torch.library.register_fake(f"gradus::{name}")
    return register


def _statistics_type(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype is torch.float64 else torch.float32


@_fake("swi_glu")
def _(x: Tensor, dim: int) -> Tensor:
    shape = list(x.shape)
    shape[dim] //= 2
    return x.new_empty(shape)


@_fake("swi_glu_grad")
def _(y_grad: Tensor, x: Tensor, dim: int) -> Tensor:
    return x.new_empty(x.shape)


@_fake("exp_segsum")
def _(x: Tensor) -> Tensor:
    return x.new_empty((*x.shape, x.shape[-1]))


@_fake("exp_segsum_backward")
def _(grad_output: Tensor, y: Tensor) -> Tensor:
    return grad_output.new_empty(grad_output.shape[:-1])


@_fake("scaled_masked_softmax")
def _(x: Tensor, mask: Tensor, scale: float) -> Tensor:
    return x.new_empty(x.shape)


@_fake("scaled_masked_softmax_backward")
def _(grad_output: Tensor, y: Tensor, mask: Tensor, scale: float) -> Tensor:
    return y.new_empty(y.shape)


@_fake("nsa_selected_attention")
def _(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, ...]:
    rows, heads = query.shape[:2]
    statistics = [query.new_empty((rows, heads, 8), dtype=_statistics_type(query)) for _ in range(2)]
    return query.new_empty((rows, heads, value.shape[2])), *statistics


@_fake("nsa_selected_attention_grad")
def _(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return tuple(t.new_empty(t.shape) for t in (query, key, value))


@_fake("fused_linear_online_max_sum")
def _(x: Tensor, weight: Tensor, target: Tensor, start: int, end: int, return_logits: bool) -> tuple[Tensor, ...]:
    rows = x.shape[0]
    max, sum, predicted = (x.new_empty(rows, dtype=_statistics_type(x)) for _ in range(3))
    mask = x.new_empty((rows + 7) // 8, dtype=torch.uint8)
    logits = x.new_empty((rows, weight.shape[0]) if return_logits else 0)
    return max, sum, predicted, mask, target.new_empty(rows), logits


@_fake("fused_cross_entropy_loss_with_max_sum")
def _(max: Tensor, sum: Tensor, predicted: Tensor, logits: Tensor | None) -> tuple[Tensor, Tensor]:
    return max.new_empty(max.shape), max.new_empty(logits.shape if logits is not None else 0)


@_fake("fused_linear_cross_entropy_loss_grad")
def _(grad: Tensor, x: Tensor, weight: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


@_fake("linear_cross_entropy_with_grad")
def _(grad: Tensor, x: Tensor, weight: Tensor, target: Tensor) -> tuple[Tensor, ...]:
    statistics = [x.new_empty(x.shape[0], dtype=_statistics_type(x)) for _ in range(3)]
    return *statistics, x.new_empty(x.shape), weight.new_empty(weight.shape)


# Gradients. torch.library.register_autograd does the same and takes 10 microseconds more for it.


def _gradient(name: str, save: Callable[..., None], backward: Callable[..., Any]) -> None:
    """save(ctx, args, result) at the forward, backward(ctx, saved, *grads) -> one gradient for every argument."""
    op = getattr(_ops, name).default
    enabled, any_requires_grad = torch.is_grad_enabled, torch._C._any_requires_grad
    in_torch_func = torch._C._are_functorch_transforms_active

    def forward(ctx: Any, *args: Any) -> Any:
        with _below_autograd():
            result = op(*args)
        save(ctx, args, result)
        return result

    def gradient(ctx: Any, *grads: Tensor | None) -> Any:
        saved = ctx.saved_tensors  # out here: a checkpoint computes them now, and records how
        if enabled():  # create_graph: the operators of the gradient must record that they have none themselves
            return backward(ctx, saved, *grads)
        with _below_autograd():
            return backward(ctx, saved, *grads)

    members = {"forward": staticmethod(forward), "backward": staticmethod(gradient)}
    function: Any = type(f"Gradus_{name}", (torch.autograd.Function,), members)
    apply = super(torch.autograd.Function, function).apply  # Function.apply without what only torch.func needs

    def kernel(*args: Any) -> Any:
        # a level of forward mode: apply says that there is no derivative where a tangent is, and none is lost
        if (enabled() and any_requires_grad(*args)) or forward_ad._current_level >= 0:
            return function.apply(*args) if in_torch_func() else apply(*args)  # the former says why it cannot
        with _below_autograd():
            return op(*args)

    _kernels.impl(name, kernel, "Autograd")


def _no_gradient(name: str, instead: str) -> None:
    def backward(*_: Any) -> None:
        raise RuntimeError(f"gradus: {name} has no derivative; {instead}")

    _gradient(name, lambda ctx, args, result: None, backward)


def _save_swi_glu(ctx: Any, args: Sequence[Any], y: Tensor) -> None:
    x, ctx.dim = args
    ctx.save_for_backward(x)


def _swi_glu_backward(ctx: Any, saved: Sequence[Tensor], grad: Tensor) -> tuple[Tensor, None]:
    return _ops.swi_glu_grad.default(grad, *saved, ctx.dim), None


def _save_exp_segsum(ctx: Any, args: Sequence[Any], y: Tensor) -> None:
    ctx.save_for_backward(y)


def _exp_segsum_backward(ctx: Any, saved: Sequence[Tensor], grad: Tensor) -> Any:
    return _ops.exp_segsum_backward.default(grad, *saved)


def _save_softmax(ctx: Any, args: Sequence[Any], y: Tensor) -> None:
    x, mask, ctx.scale = args
    ctx.save_for_backward(y, mask)


def _softmax_backward(ctx: Any, saved: Sequence[Tensor], grad: Tensor) -> tuple[Tensor, None, None]:
    return _ops.scaled_masked_softmax_backward.default(grad, *saved, ctx.scale), None, None


def _save_nsa(ctx: Any, args: Sequence[Any], result: tuple[Tensor, Tensor, Tensor]) -> None:
    out, max, sum = result
    ctx.save_for_backward(*args[:4], max, sum)
    ctx.attributes = args[4:]
    ctx.mark_non_differentiable(max, sum)
    ctx.set_materialize_grads(False)


def _nsa_backward(ctx: Any, saved: Sequence[Tensor], grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    query, key, value, indices, max, sum = saved
    gradients: Sequence[Tensor | None] = (None,) * 3
    if grad is not None:
        # Without the rounded output, delta comes from P and dP: about ten times nearer to f64 in bf16.
        gradients = _ops.nsa_selected_attention_grad.default(
            grad, query, key, value, None, max, sum, indices, *ctx.attributes
        )
    return *gradients, None, *(None for _ in ctx.attributes)


_gradient("swi_glu", _save_swi_glu, _swi_glu_backward)
_gradient("exp_segsum", _save_exp_segsum, _exp_segsum_backward)
_gradient("scaled_masked_softmax", _save_softmax, _softmax_backward)
_gradient("nsa_selected_attention", _save_nsa, _nsa_backward)
for _name in (
    "swi_glu_grad",
    "exp_segsum_backward",
    "scaled_masked_softmax_backward",
    "nsa_selected_attention_grad",
    "fused_linear_cross_entropy_loss_grad",
):
    _no_gradient(_name, "second derivatives are not implemented")
for _name in (
    "fused_linear_online_max_sum",
    "fused_cross_entropy_loss_with_max_sum",
    "linear_cross_entropy_with_grad",
):
    _no_gradient(_name, "gradus.torch.linear_cross_entropy has one")


# Autocast, as PyTorch does it: products take the lower precision, and what follows keeps the dtype it is given.


def _autocast(name: str) -> None:
    op = getattr(_ops, name).default

    def cast(arg: Any) -> Any:
        eligible = isinstance(arg, Tensor) and arg.is_floating_point() and arg.dtype is not torch.float64
        return arg.to(torch.get_autocast_dtype("cpu")) if eligible else arg

    def kernel(*args: Any) -> Any:
        args = tuple(cast(arg) for arg in args)
        with torch.autocast("cpu", enabled=False):
            return op(*args)

    _kernels.impl(name, kernel, "AutocastCPU")


_autocast("nsa_selected_attention")
_autocast("fused_linear_online_max_sum")
