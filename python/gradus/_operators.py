"""The operators on arrays. Shapes of results are worked out here and judged in C, whose words refuse a wrong call.

An array is NumPy's, of any strides that are not negative, or anything on the CPU with __dlpack__; none is copied. New
arrays are NumPy's, bf16 is ml_dtypes.bfloat16. float64 is taken with options(precision="golden").
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

from ._arrays import DTYPES, View, indices, new_array, view_of
from ._library import call, told

Array = Any

_F32, _F64, _BOOL, _U8 = (DTYPES[name] for name in ("float32", "float64", "bool", "uint8"))
_BYTE = ctypes.c_uint8(1)
_CAUSAL = View(ctypes.addressof(_BYTE), _BOOL, (1, 1), (1, 1), True, _BYTE)  # only that there is a mask counts


class OnlineMaxSum(NamedTuple):
    """What a shard of the vocabulary knows of each token; `logits` is None unless asked for."""

    max: Array
    sum: Array
    predicted: Array
    target_mask: Array
    masked_target: Array
    logits: Array | None


def _statistics(view: View) -> int:
    return _F64 if view.dtype == _F64 else _F32


def _halved(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    if not -len(shape) <= dim < len(shape):
        return shape  # the operator refuses the dim
    at = dim % len(shape)
    return shape[:at] + (shape[at] // 2,) + shape[at + 1:]


def swi_glu(x: Array, dim: int = -1, *, out: Array | None = None) -> Array:
    """A·sigmoid(A)·B of the halves A, B of x along dim."""
    view = told("SwiGlu", "x", view_of, x)
    result = new_array(_halved(view.shape, dim), view.dtype) if out is None else out
    call("SwiGlu", x=view, dim=dim, out=result)
    return result


def swi_glu_grad(y_grad: Array, x: Array, dim: int = -1, *, out: Array | None = None) -> Array:
    """The gradient of swi_glu by x; out may be x itself."""
    view = told("SwiGluGrad", "x", view_of, x)
    result = new_array(view.shape, view.dtype) if out is None else out
    call("SwiGluGrad", yGrad=y_grad, x=view, dim=dim, out=result)
    return result


def exp_segsum(x: Array, *, out: Array | None = None) -> Array:
    """Mamba-2's decay matrix: exp(x[j+1] + … + x[i]) for j < i, 1 on the diagonal, 0 above.
    x: [.., T] of rank 3 or 4."""
    view = told("ExpSegsum", "self", view_of, x)
    result = new_array(view.shape + view.shape[-1:], view.dtype) if out is None else out
    call("ExpSegsum", self=view, out=result)
    return result


def exp_segsum_backward(grad_output: Array, y: Array, *, out: Array | None = None) -> Array:
    """The gradient of exp_segsum by x, from its result y."""
    view = told("ExpSegsumBackward", "gradOutput", view_of, grad_output)
    result = new_array(view.shape[:-1], view.dtype) if out is None else out
    call("ExpSegsumBackward", gradOutput=view, gradSelf=y, gradInput=result)
    return result


def _mask_for(op: str, mask: Array, of: View) -> View:
    """The operator shares a mask among batches and heads by itself; rows and columns are spread by strides of 0."""
    view: View = told(op, "mask", view_of, mask)
    return view.broadcast((1, 1) + of.shape[2:])


def scaled_masked_softmax(x: Array, mask: Array, scale: float = 1.0, *, out: Array | None = None) -> Array:
    """softmax(-10000 where mask, else x·scale) along the last dim. x: [B, H, S, N]; mask: bool, broadcast to x without
    a copy. out may be x itself."""
    view = told("ScaledMaskedSoftmax", "x", view_of, x)
    result = new_array(view.shape, view.dtype) if out is None else out
    call("ScaledMaskedSoftmax", x=view, mask=_mask_for("ScaledMaskedSoftmax", mask, view), scale=scale, y=result)
    return result


def scaled_masked_softmax_backward(grad_output: Array, y: Array, mask: Array, scale: float = 1.0, *,
                                   out: Array | None = None) -> Array:
    """The gradient of scaled_masked_softmax by x, from its result y; 0 where mask. out may be grad_output or y."""
    op = "ScaledMaskedSoftmaxBackward"
    view = told(op, "gradOutput", view_of, grad_output)
    result = new_array(view.shape, view.dtype) if out is None else out
    call(op, gradOutput=view, y=y, mask=_mask_for(op, mask, view), scale=scale, out=result)
    return result


def cumulative_lengths(seq_q: Iterable[int] | None, seq_kv: Iterable[int] | None) -> tuple[list[int] | None,
                                                                                         list[int] | None]:
    """Ends of the batches as C counts them: without a 0 before the first; none at all are no ends. Where both begin
    with 0, that batch has nothing in it; where one is longer by its 0, the other has none to match."""
    q, kv = (None if seq is None else [operator.index(end) for end in seq] or None for seq in (seq_q, seq_kv))
    batches_q, batches_kv = (1 if seq is None else len(seq) for seq in (q, kv))
    zero_q, zero_kv = (seq is not None and len(seq) > 1 and seq[0] == 0 for seq in (q, kv))
    if zero_q and (zero_kv or batches_q == batches_kv + 1):
        q = q[1:]  # type: ignore[index]
    if zero_kv and (zero_q or batches_kv == batches_q + 1):
        kv = kv[1:]  # type: ignore[index]
    return q, kv


def _attention(query: View, scale: float, block_size: int, block_count: int, causal: bool, seq_q: Iterable[int] | None,
               seq_kv: Iterable[int] | None) -> dict[str, Any]:
    """The arguments that both operators share; causal is the mask of one and the mode of both, so they agree."""
    q, kv = cumulative_lengths(seq_q, seq_kv)
    return {"actualSeqQLenOptional": q, "actualSeqKvLenOptional": kv, "attenMaskOptional": _CAUSAL if causal else None,
            "scaleValue": scale, "headNum": query.shape[1] if len(query.shape) > 1 else 0, "inputLayout": "TND",
            "sparseMode": 2 if causal else 0, "selectedBlockSize": block_size, "selectedBlockCount": block_count}


def nsa_selected_attention(query: Array, key: Array, value: Array, topk_indices: Array, *, scale: float,
                           block_size: int, block_count: int, causal: bool = True, seq_q: Iterable[int] | None = None,
                           seq_kv: Iterable[int] | None = None) -> tuple[Array, Array, Array]:
    """Attention of every query to the key blocks it has chosen: (out, max, sum).

    query [T1, N1, D], key [T2, N2, D], value [T2, N2, Dv]; topk_indices [T1, N2, block_count]: block numbers in the
    query's own batch, int32 (other integers are converted, a copy). seq_q, seq_kv: where each batch ends, with or
    without a leading 0. max, sum: [T1, N1, 8], eight equal copies.
    """
    op = "NsaSelectedAttention"
    q, v = told(op, "query", view_of, query), told(op, "value", view_of, value)
    out = new_array(q.shape[:2] + v.shape[2:], q.dtype)
    maximum, total = (new_array(q.shape[:2] + (8,), _statistics(q)) for _ in range(2))
    call(op, query=q, key=key, value=v, topkIndices=told(op, "topkIndices", indices, topk_indices, "int32"),
         **_attention(q, scale, block_size, block_count, causal, seq_q, seq_kv),
         softmaxMaxOut=maximum, softmaxSumOut=total, attentionOut=out)
    return out, maximum, total


def nsa_selected_attention_grad(grad: Array, query: Array, key: Array, value: Array, out: Array | None, max: Array,
                                sum: Array, topk_indices: Array, *, scale: float, block_size: int, block_count: int,
                                causal: bool = True, seq_q: Iterable[int] | None = None,
                                seq_kv: Iterable[int] | None = None) -> tuple[Array, Array, Array]:
    """The gradient of nsa_selected_attention: (dq, dk, dv). out=None takes sum(P·dP) in place of sum(grad·out), which
    in 16 bits is nearer to the truth; topk_indices as there."""
    op = "NsaSelectedAttentionGrad"
    q, k, v = (told(op, name, view_of, array) for name, array in (("query", query), ("key", key), ("value", value)))
    dq, dk, dv = (new_array(view.shape, view.dtype) for view in (q, k, v))
    call(op, query=q, key=k, value=v, attentionOut=out, attentionOutGrad=grad, softmaxMax=max, softmaxSum=sum,
         topkIndices=told(op, "topkIndices", indices, topk_indices, "int32"),
         **_attention(q, scale, block_size, block_count, causal, seq_q, seq_kv), dqOut=dq, dkOut=dk, dvOut=dv)
    return dq, dk, dv


def fused_linear_online_max_sum(x: Array, weight: Array, target: Array, start: int, end: int, *,
                                return_logits: bool = False) -> OnlineMaxSum:
    """Of logits = x·weightᵀ, which never exist as a whole unless asked for: max and sum(exp(logit - max)) of each
    token, logit[target] - max, and which targets are not in [start, end): target_mask, a bit each, eight tokens a byte.

    x [BT, H], weight [V, H]; target [BT] int64 or int32 (other integers are converted, a copy); masked_target is
    target - start, or 0, in the same dtype.
    """
    op = "FusedLinearOnlineMaxSum"
    tokens, words = told(op, "input", view_of, x), told(op, "weight", view_of, weight)
    targets = told(op, "target", indices, target, "int64", "int32")
    rows = tokens.shape[:1]
    maximum, total, predicted = (new_array(rows, _statistics(tokens)) for _ in range(3))
    target_mask = new_array(tuple((count + 7) // 8 for count in rows), _U8)
    masked_target = new_array(rows, targets.dtype)
    logits = new_array(rows + words.shape[:1], tokens.dtype) if return_logits else None
    call(op, input=tokens, weight=words, target=targets, vocabStartIndex=start, vocabEndIndex=end,
         logitsMaxLocalOut=maximum, sumExpLogitsLocalOut=total, predictedLogitsLocalOut=predicted,
         targetMaskOut=target_mask, maskedTargetOut=masked_target, vocabParallelLogitsOutOptional=logits)
    return OnlineMaxSum(maximum, total, predicted, target_mask, masked_target, logits)


def fused_cross_entropy_loss_with_max_sum(max: Array, sum: Array, predicted: Array, *,
                                          logits: Array | None = None) -> tuple[Array, Array | None]:
    """(loss, softmax): loss = log(sum) - predicted; softmax = exp(logits - max)/sum, or None without logits."""
    op = "FusedCrossEntropyLossWithMaxSum"
    statistics = told(op, "logitsMax", view_of, max)
    loss = new_array(statistics.shape, statistics.dtype)
    scores = None if logits is None else told(op, "vocabParallelLogitsOptional", view_of, logits)
    softmax = None if scores is None else new_array(scores.shape, statistics.dtype)
    call(op, logitsMax=statistics, sumExpLogits=sum, predictedLogits=predicted, vocabParallelLogitsOptional=scores,
         lossOut=loss, softMaxOutOptional=softmax)
    return loss, softmax


def fused_linear_cross_entropy_loss_grad(grad: Array, x: Array, weight: Array, target_mask: Array, masked_target: Array,
                                         *, max: Array | None = None, sum: Array | None = None,
                                         softmax: Array | None = None) -> tuple[Array, Array]:
    """(dx, dweight) of the losses, weighted by grad [BT]: from max and sum of all shards, or from softmax.
    masked_target: int64 or int32 (other integers are converted, a copy)."""
    op = "FusedLinearCrossEntropyLossGrad"
    tokens, words = told(op, "input", view_of, x), told(op, "weight", view_of, weight)
    dx, dweight = new_array(tokens.shape, tokens.dtype), new_array(words.shape, words.dtype)
    call(op, grad=grad, input=tokens, weight=words, targetMask=target_mask,
         maskedTarget=told(op, "maskedTarget", indices, masked_target, "int64", "int32"), logitsMaxOptional=max,
         sumExpLogitsOptional=sum, softmaxOptional=softmax, inputGradOut=dx, weightGradOut=dweight)
    return dx, dweight
