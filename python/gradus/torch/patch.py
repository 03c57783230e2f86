"""Models of transformers on Gradus: the MLP as one product and swiglu, the LM head with its loss as
linear_cross_entropy.

    changes = patch.apply(model)       # LLaMA, Mistral, Qwen2, Gemma and what shares their code
    patch.undo(model)

Parameters, state_dict and optimizers stay what they are.
"""

from __future__ import annotations

import inspect
import sys
from types import CodeType, MethodType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .functional import swiglu
from .linear_cross_entropy import autocast_dtype, linear_cross_entropy


class Change(NamedTuple):
    """What apply did at a module, or why it left it alone."""

    module: str
    kind: str  # "swiglu" or "linear_cross_entropy"
    applied: bool
    note: str


def apply(model: nn.Module, *, swiglu: bool = True, linear_cross_entropy: bool = True) -> list[Change]:
    """Replaces what it can in place, and lists every MLP and head that it looked at."""
    changes = []
    for name, module in model.named_modules():
        for wanted, kind in ((swiglu, _SWIGLU), (linear_cross_entropy, _HEAD)):
            if wanted and type(module).__name__.endswith(kind.suffix):
                changes.append(_replace(name, module, kind))
    return changes


def undo(model: nn.Module) -> list[str]:
    """Takes back what apply did, and tells at which modules."""
    names = []
    for name, module in model.named_modules():
        forward = getattr(module.__dict__.get("forward"), "__func__", None)
        if forward not in (_SWIGLU.forward, _HEAD.forward):
            continue
        del module.forward
        if forward is _SWIGLU.forward and _joined(module.gate_proj.weight, module.up_proj.weight) is not None:
            for weight in (module.gate_proj.weight, module.up_proj.weight):
                weight.data = weight.data.clone()
        names.append(name)
    return names


class _Kind(NamedTuple):
    name: str
    suffix: str  # of the class
    model: str  # LLaMA's class, whose code this one must have
    forward: Any
    note: str


def _replace(name: str, module: Any, kind: _Kind) -> Change:
    why_not = _obstacle(module, kind)
    if why_not is None:
        module.forward = MethodType(kind.forward, module)
        if kind is _SWIGLU:
            _join(module.gate_proj.weight, module.up_proj.weight)
    return Change(name, kind.name, why_not is None, why_not or kind.note)


def _obstacle(module: Any, kind: _Kind) -> str | None:
    if "forward" in module.__dict__:
        return "its forward is replaced already"
    if not _same_code(type(module).forward, kind.model):
        return f"{type(module).__name__} does not compute what {kind.model} does"
    if kind is _HEAD:
        return None if _plain(module.lm_head) else "lm_head is no plain Linear, or has hooks"
    if type(module.act_fn).__name__ not in ("SiLU", "SiLUActivation"):
        return f"its activation is {type(module.act_fn).__name__}, not silu"
    if not (_plain(module.gate_proj) and _plain(module.up_proj)):
        return "gate_proj or up_proj is no plain Linear, or has hooks"
    return None


def _plain(linear: nn.Module) -> bool:
    """Whether it is all in its weight and bias, and those are here: no adapter, hook or DTensor."""
    hooks = linear._forward_hooks or linear._forward_pre_hooks
    return type(linear) is nn.Linear and not hooks and type(linear.weight) is nn.Parameter


def _same_code(forward: Any, model: str) -> bool:
    """Whether it is LLaMA's, which many models share word by word, while others scale or cap something on the way."""
    code = getattr(inspect.unwrap(forward), "__code__", None)
    if code is None or "transformers" not in sys.modules:
        return False
    from transformers.models.llama import modeling_llama

    def text(code: CodeType) -> tuple[Any, ...]:
        return code.co_code, code.co_names, code.co_varnames

    return text(code) == text(inspect.unwrap(getattr(modeling_llama, model).forward).__code__)


# Gate and up as one product. Both weights lie in one storage, [2I, H], and are still the Parameters they were.


def _joined(gate: Tensor, up: Tensor) -> Tensor | None:
    """Both as one tensor, if up begins in memory where gate ends."""
    rows, columns = gate.shape
    together = (
        gate.dtype == up.dtype
        and gate.is_contiguous()
        and up.is_contiguous()
        and up.data_ptr() == gate.data_ptr() + gate.nbytes
        and up.untyped_storage().data_ptr() == gate.untyped_storage().data_ptr()
    )
    return gate.as_strided((rows + up.shape[0], columns), (columns, 1)) if together else None


def _join(gate: nn.Parameter, up: nn.Parameter) -> None:
    """Moves them into one storage; after model.to(), a copy of the model or load_state_dict(assign=True), again."""

    def alone(weight: nn.Parameter) -> bool:  # and not a part of somebody's flat buffer
        storage = weight.untyped_storage()
        return not weight.is_meta and not weight.is_inference() and storage.nbytes() == weight.nbytes

    if _joined(gate, up) is None and gate.dtype == up.dtype and alone(gate) and alone(up):
        with torch.inference_mode(False), torch.no_grad():
            whole = torch.cat([gate.data, up.data])
            gate.data, up.data = whole[: gate.shape[0]], whole[gate.shape[0] :]


# An operator, so that compiled code as well looks at where the weights lie when it runs.
@torch.library.custom_op("gradus::joined_linear", mutates_args=())
def _joined_linear(x: Tensor, gate: Tensor, up: Tensor, bias: Tensor | None, transposed: bool) -> Tensor:
    """x·[gate; up]ᵀ + bias, or transposed x·[gate; up], in the dtype of x."""
    weight = _joined(gate, up)
    weight = (torch.cat([gate, up]) if weight is None else weight).to(x.dtype)
    return torch.matmul(x, weight) if transposed else nn.functional.linear(x, weight, bias)


@_joined_linear.register_fake
def _(x: Tensor, gate: Tensor, up: Tensor, bias: Tensor | None, transposed: bool) -> Tensor:
    return x.new_empty(*x.shape[:-1], gate.shape[1] if transposed else gate.shape[0] + up.shape[0])


def _save_joined_linear(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, gate, up, _, ctx.transposed = inputs
    ctx.save_for_backward(x, gate, up)


def _joined_linear_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, gate, up = ctx.saved_tensors
    dx = dgate = dup = dbias = None
    if ctx.needs_input_grad[0]:
        dx = torch.ops.gradus.joined_linear(grad, gate, up, None, not ctx.transposed)
    if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
        rows, columns = (value.reshape(-1, value.shape[-1]) for value in ((x, grad) if ctx.transposed else (grad, x)))
        dweight = (rows.T @ columns).to(gate.dtype)
        dgate, dup = dweight[: gate.shape[0]], dweight[gate.shape[0] :]
    if ctx.needs_input_grad[3]:
        dbias = grad.reshape(-1, grad.shape[-1]).sum(0)
    return dx, dgate, dup, dbias, None


_joined_linear.register_autograd(_joined_linear_backward, setup_context=_save_joined_linear)


def _mlp_forward(self: Any, x: Tensor) -> Any:
    gate, up = self.gate_proj, self.up_proj
    if not (_plain(gate) and _plain(up)):  # not any more
        return type(self).forward(self, x)
    if not torch.compiler.is_compiling():
        _join(gate.weight, up.weight)
    x, wanted = x.to(autocast_dtype(x)), autocast_dtype(gate.weight)
    if x.dtype != wanted:
        raise TypeError(f"gate_proj: input is {x.dtype}, expected {wanted} as the weight")
    bias = None if gate.bias is None else torch.cat([gate.bias, up.bias]).to(x.dtype)
    return self.down_proj(swiglu(torch.ops.gradus.joined_linear(x, gate.weight, up.weight, bias, False)))


def _causal_lm_forward(
    self: Any,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    past_key_values: Any = None,
    inputs_embeds: Tensor | None = None,
    labels: Tensor | None = None,
    use_cache: bool | None = None,
    logits_to_keep: int | Tensor = 0,
    **kwargs: Any,
) -> Any:
    """Training with labels makes a loss and no logits; all else is the model's own forward."""
    arguments = {
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "position_ids": position_ids,
        "past_key_values": past_key_values,
        "inputs_embeds": inputs_embeds,
        "use_cache": use_cache,
        **kwargs,
    }
    every_position = isinstance(logits_to_keep, int) and logits_to_keep == 0
    usual_loss = getattr(self.loss_function, "__name__", "") == "ForCausalLMLoss"
    if labels is None or not (self.training and every_position and usual_loss and _plain(self.lm_head)):
        return type(self).forward(self, labels=labels, logits_to_keep=logits_to_keep, **arguments)
    from transformers.modeling_outputs import CausalLMOutputWithPast

    as_dict = arguments.pop("return_dict", None)
    outputs = self.model(**arguments)
    result: Any = CausalLMOutputWithPast(
        loss=_causal_lm_loss(self, outputs.last_hidden_state, labels, **kwargs),
        past_key_values=outputs.past_key_values,
        hidden_states=outputs.hidden_states,
        attentions=outputs.attentions,
    )
    return result if (self.config.return_dict if as_dict is None else as_dict) else result.to_tuple()


def _causal_lm_loss(
    self: Any,
    hidden: Tensor,
    labels: Tensor,
    num_items_in_batch: Tensor | int | None = None,
    ignore_index: int = -100,
    shift_labels: Tensor | None = None,
    **_: Any,
) -> Any:
    """As transformers does: a token predicts the next one; the sum over num_items_in_batch, or the mean."""
    if shift_labels is None:
        shift_labels = nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    loss = linear_cross_entropy(
        hidden,
        self.lm_head.weight,
        shift_labels.reshape(hidden.shape[:-1]),
        bias=self.lm_head.bias,
        reduction="mean" if num_items_in_batch is None else "sum",
        ignore_index=ignore_index,
    )
    return loss if num_items_in_batch is None else loss / num_items_in_batch


# Pickle finds a method by this name: a pickled model comes back as transformers has it.
_mlp_forward.__name__ = _causal_lm_forward.__name__ = "forward"
_SWIGLU = _Kind("swiglu", "MLP", "LlamaMLP", _mlp_forward, "one product, and swiglu")
_HEAD = _Kind(
    "linear_cross_entropy", "ForCausalLM", "LlamaForCausalLM", _causal_lm_forward, "no logits where it trains on labels"
)
