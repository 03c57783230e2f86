# Made by stubs.py from the catalogue and the signatures of the functions: change those, not this.
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, overload

from numpy.typing import NDArray

class _Tensor(Protocol):  # a NumPy array, a PyTorch tensor on the CPU, …
    def __dlpack__(self) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, Any]: ...

_Out = TypeVar("_Out", bound=_Tensor)

__version__: str
__all__ = ["Error", "OnlineMaxSum", "call", "catalogue", "exp_segsum", "exp_segsum_backward",
           "fused_cross_entropy_loss_with_max_sum", "fused_linear_cross_entropy_loss_grad",
           "fused_linear_online_max_sum", "nsa_selected_attention", "nsa_selected_attention_grad", "options",
           "scaled_masked_softmax", "scaled_masked_softmax_backward", "swi_glu", "swi_glu_grad"]

class Error(RuntimeError):
    code: int
    message: str
    def __init__(self, code: int, message: str) -> None: ...

def catalogue() -> list[dict[str, Any]]: ...
def options(**values: str | int) -> AbstractContextManager[None]: ...

@overload
def call(op: Literal["ExpSegsum"], /, *, self: _Tensor, out: _Tensor) -> None: ...
@overload
def call(
    op: Literal["ExpSegsumBackward"], /, *, gradOutput: _Tensor, gradSelf: _Tensor, gradInput: _Tensor
) -> None: ...
@overload
def call(
    op: Literal["FusedLinearOnlineMaxSum"], /, *, input: _Tensor, weight: _Tensor, target: _Tensor,
    vocabStartIndex: int, vocabEndIndex: int, logitsMaxLocalOut: _Tensor, sumExpLogitsLocalOut: _Tensor,
    predictedLogitsLocalOut: _Tensor, targetMaskOut: _Tensor, maskedTargetOut: _Tensor,
    vocabParallelLogitsOutOptional: _Tensor | None = ...
) -> None: ...
@overload
def call(
    op: Literal["FusedCrossEntropyLossWithMaxSum"], /, *, logitsMax: _Tensor, sumExpLogits: _Tensor,
    predictedLogits: _Tensor, labelSmoothing: float = ..., inputOptional: _Tensor | None = ...,
    weightOptional: _Tensor | None = ..., vocabParallelLogitsOptional: _Tensor | None = ..., lossOut: _Tensor,
    softMaxOutOptional: _Tensor | None = ...
) -> None: ...
@overload
def call(
    op: Literal["FusedLinearCrossEntropyLossGrad"], /, *, grad: _Tensor, input: _Tensor, weight: _Tensor,
    targetMask: _Tensor, maskedTarget: _Tensor, labelSmoothing: float = ..., logitsMaxOptional: _Tensor | None = ...,
    sumExpLogitsOptional: _Tensor | None = ..., softmaxOptional: _Tensor | None = ..., inputGradOut: _Tensor,
    weightGradOut: _Tensor
) -> None: ...
@overload
def call(
    op: Literal["NsaSelectedAttention"], /, *, query: _Tensor, key: _Tensor, value: _Tensor, topkIndices: _Tensor,
    attenMaskOptional: _Tensor | None = ..., actualSeqQLenOptional: Iterable[int] | None = ...,
    actualSeqKvLenOptional: Iterable[int] | None = ..., scaleValue: float, headNum: int, inputLayout: str,
    sparseMode: int, selectedBlockSize: int, selectedBlockCount: int, softmaxMaxOut: _Tensor, softmaxSumOut: _Tensor,
    attentionOut: _Tensor
) -> None: ...
@overload
def call(
    op: Literal["NsaSelectedAttentionGrad"], /, *, query: _Tensor, key: _Tensor, value: _Tensor,
    attentionOut: _Tensor | None = ..., attentionOutGrad: _Tensor, softmaxMax: _Tensor, softmaxSum: _Tensor,
    topkIndices: _Tensor, actualSeqQLenOptional: Iterable[int] | None = ...,
    actualSeqKvLenOptional: Iterable[int] | None = ..., attenMaskOptional: _Tensor | None = ..., scaleValue: float,
    selectedBlockSize: int, selectedBlockCount: int, headNum: int, inputLayout: str, sparseMode: int, dqOut: _Tensor,
    dkOut: _Tensor, dvOut: _Tensor
) -> None: ...
@overload
def call(
    op: Literal["ScaledMaskedSoftmax"], /, *, x: _Tensor, mask: _Tensor, scale: float = ..., fixTriuMask: bool = ...,
    y: _Tensor
) -> None: ...
@overload
def call(
    op: Literal["ScaledMaskedSoftmaxBackward"], /, *, gradOutput: _Tensor, y: _Tensor, mask: _Tensor,
    scale: float = ..., fixTriuMask: bool = ..., out: _Tensor
) -> None: ...
@overload
def call(op: Literal["SwiGlu"], /, *, x: _Tensor, dim: int = ..., out: _Tensor) -> None: ...
@overload
def call(op: Literal["SwiGluGrad"], /, *, yGrad: _Tensor, x: _Tensor, dim: int = ..., out: _Tensor) -> None: ...

class OnlineMaxSum(NamedTuple):
    max: NDArray[Any]
    sum: NDArray[Any]
    predicted: NDArray[Any]
    target_mask: NDArray[Any]
    masked_target: NDArray[Any]
    logits: NDArray[Any] | None

@overload
def exp_segsum(x: _Tensor, *, out: None = None) -> NDArray[Any]: ...
@overload
def exp_segsum(x: _Tensor, *, out: _Out) -> _Out: ...
@overload
def exp_segsum_backward(grad_output: _Tensor, y: _Tensor, *, out: None = None) -> NDArray[Any]: ...
@overload
def exp_segsum_backward(grad_output: _Tensor, y: _Tensor, *, out: _Out) -> _Out: ...
def fused_cross_entropy_loss_with_max_sum(
    max: _Tensor, sum: _Tensor, predicted: _Tensor, *, logits: _Tensor | None = None
) -> tuple[NDArray[Any], NDArray[Any] | None]: ...
def fused_linear_cross_entropy_loss_grad(
    grad: _Tensor, x: _Tensor, weight: _Tensor, target_mask: _Tensor, masked_target: _Tensor, *,
    max: _Tensor | None = None, sum: _Tensor | None = None, softmax: _Tensor | None = None
) -> tuple[NDArray[Any], NDArray[Any]]: ...
def fused_linear_online_max_sum(
    x: _Tensor, weight: _Tensor, target: _Tensor, start: int, end: int, *, return_logits: bool = False
) -> OnlineMaxSum: ...
def nsa_selected_attention(
    query: _Tensor, key: _Tensor, value: _Tensor, topk_indices: _Tensor, *, scale: float, block_size: int,
    block_count: int, causal: bool = True, seq_q: Iterable[int] | None = None, seq_kv: Iterable[int] | None = None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]: ...
def nsa_selected_attention_grad(
    grad: _Tensor, query: _Tensor, key: _Tensor, value: _Tensor, out: _Tensor | None, max: _Tensor, sum: _Tensor,
    topk_indices: _Tensor, *, scale: float, block_size: int, block_count: int, causal: bool = True,
    seq_q: Iterable[int] | None = None, seq_kv: Iterable[int] | None = None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]: ...
@overload
def scaled_masked_softmax(x: _Tensor, mask: _Tensor, scale: float = 1.0, *, out: None = None) -> NDArray[Any]: ...
@overload
def scaled_masked_softmax(x: _Tensor, mask: _Tensor, scale: float = 1.0, *, out: _Out) -> _Out: ...
@overload
def scaled_masked_softmax_backward(
    grad_output: _Tensor, y: _Tensor, mask: _Tensor, scale: float = 1.0, *, out: None = None
) -> NDArray[Any]: ...
@overload
def scaled_masked_softmax_backward(
    grad_output: _Tensor, y: _Tensor, mask: _Tensor, scale: float = 1.0, *, out: _Out
) -> _Out: ...
@overload
def swi_glu(x: _Tensor, dim: int = -1, *, out: None = None) -> NDArray[Any]: ...
@overload
def swi_glu(x: _Tensor, dim: int = -1, *, out: _Out) -> _Out: ...
@overload
def swi_glu_grad(y_grad: _Tensor, x: _Tensor, dim: int = -1, *, out: None = None) -> NDArray[Any]: ...
@overload
def swi_glu_grad(y_grad: _Tensor, x: _Tensor, dim: int = -1, *, out: _Out) -> _Out: ...
