"""CANN's LLM-training gradient operators on any CPU, on NumPy arrays.

    y = gradus.swi_glu(x)                                   # a new array
    dx = gradus.swi_glu_grad(dy, x, out=x)                  # or one that is there
    with gradus.options(precision="golden"):                # f64 loops; float64 arrays too
        reference = gradus.swi_glu_grad(dy.astype("f8"), x.astype("f8"))

Options hold for the thread that sets them. gradus.torch has the same operators for PyTorch, with autograd.
"""

from ._library import Error, call, catalogue, options, version
from ._operators import (OnlineMaxSum, exp_segsum, exp_segsum_backward, fused_cross_entropy_loss_with_max_sum,
                         fused_linear_cross_entropy_loss_grad, fused_linear_online_max_sum, nsa_selected_attention,
                         nsa_selected_attention_grad, scaled_masked_softmax, scaled_masked_softmax_backward, swi_glu,
                         swi_glu_grad)

__version__ = version()
__all__ = ["Error", "OnlineMaxSum", "call", "catalogue", "exp_segsum", "exp_segsum_backward",
           "fused_cross_entropy_loss_with_max_sum", "fused_linear_cross_entropy_loss_grad",
           "fused_linear_online_max_sum", "nsa_selected_attention", "nsa_selected_attention_grad", "options",
           "scaled_masked_softmax", "scaled_masked_softmax_backward", "swi_glu", "swi_glu_grad"]
