"""Gradus for PyTorch on CPUs: fused operators with autograd, torch.compile and autocast.

    from gradus.torch import swiglu
    y = swiglu(x)                      # silu(a) * b, a and b the halves of x; differentiable

Tensors of any strides are read where they are. Under autocast on CPUs, nsa_selected_attention and linear_cross_entropy
take the lower precision, as products do; the others keep the dtype they are given, as torch.softmax and torch.exp do.
Loops run on the library's own threads (`gradus.options(num_threads=...)`) or, after use_torch_threads(True), on
PyTorch's (`torch.set_num_threads`). Second derivatives are not implemented and say so.
"""

from ._ops import use_torch_threads
from .functional import exp_segsum, nsa_selected_attention, scaled_masked_softmax, silu_mul, swiglu
from .linear_cross_entropy import linear_cross_entropy

__all__ = [
    "exp_segsum",
    "linear_cross_entropy",
    "nsa_selected_attention",
    "scaled_masked_softmax",
    "silu_mul",
    "swiglu",
    "use_torch_threads",
]
