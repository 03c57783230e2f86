"""What is compared: every operator, its shapes, and all ways in which PyTorch can compute the same.

A family adds a builder and its operators to OPERATORS; nothing else knows them.
"""

from dataclasses import dataclass, field
from typing import Callable

import torch
import torch.nn.functional as F


@dataclass
class Case:
    """One operator at one shape. Every callable computes into memory that is warm after its first call."""

    ours: Callable[[], None]
    result: list[torch.Tensor]  # what ours writes
    # Way -> a function that returns the same tensors. Those in compiled are given to torch.compile first.
    eager: dict[str, Callable[[], list[torch.Tensor]]]
    compiled: dict[str, Callable[[Callable], Callable[[], list[torch.Tensor]]]]
    # The right answer in float64 for some part of the result, and that part of it.
    expected: Callable[[], list[torch.Tensor]]
    part: Callable[[torch.Tensor], torch.Tensor]


@dataclass
class Operator:
    build: Callable[..., Case]  # (library, shape, dtype)
    shapes: list[tuple[int, ...]]
    target: dict[torch.dtype, float]  # times faster than the best peer
    dtypes: list[torch.dtype] = field(default_factory=lambda: [torch.bfloat16, torch.float16, torch.float32])


def random(shape, dtype):
    return torch.randn(shape, dtype=torch.float32).to(dtype)


def targets(bf16, other):
    return {torch.bfloat16: bf16, torch.float16: other, torch.float32: other}


# ---- swi_glu

SWI_GLU_SHAPES = [(4096, 1, 22016), (4096, 1, 7168), (8192, 1, 7808), (2048, 28672)]


def halves(x):
    n = x.shape[-1] // 2
    return x[..., :n], x[..., n:]


def some_rows(x):
    return x[:: max(1, x.shape[0] // 64)]


def silu_times(x):
    a, b = halves(x)
    return F.silu(a) * b


def swi_glu(library, shape, dtype):
    x = random(shape, dtype)
    a, b = halves(x)
    y, y_peer = torch.zeros_like(a), torch.zeros_like(a)

    def in_place():
        torch.mul(F.silu(a), b, out=y_peer)
        return [y_peer]

    def compiled(compile):
        function = compile(silu_times)
        return lambda: [function(x)]

    def expected():
        return [silu_times(some_rows(x).double())]

    return Case(ours=library.prepare("SwiGlu", x=x, dim=-1, out=y), result=[y],
                eager={"eager silu": lambda: [silu_times(x)], "eager silu, out=": in_place},
                compiled={"compiled": compiled}, expected=expected, part=some_rows)


def swi_glu_grad_formula(g, x):
    a, b = halves(x)
    s = torch.sigmoid(a)
    return torch.cat([g * b * (s * (1 + a * (1 - s))), g * a * s], dim=-1)


def swi_glu_grad(library, shape, dtype):
    x = random(shape, dtype)
    a, b = halves(x)
    g = random(a.shape, dtype)
    out, out_peer = torch.zeros_like(x), torch.zeros_like(x)
    leaf = x.detach().requires_grad_()

    def fused():
        out_a, out_b = halves(out_peer)
        torch.ops.aten.silu_backward.grad_input(g * b, a, grad_input=out_a)
        torch.mul(F.silu(a), g, out=out_b)
        return [out_peer]

    def autograd(function):
        y = function(leaf)
        return lambda: list(torch.autograd.grad(y, leaf, g, retain_graph=True))

    def compiled_formula(compile):
        function = compile(swi_glu_grad_formula)
        return lambda: [function(g, x)]

    def expected():
        rows = some_rows(x).double().requires_grad_()
        return list(torch.autograd.grad(silu_times(rows), rows, some_rows(g).double()))

    return Case(ours=library.prepare("SwiGluGrad", yGrad=g, x=x, dim=-1, out=out), result=[out],
                eager={"eager formula": lambda: [swi_glu_grad_formula(g, x)], "eager silu_backward, out=": fused,
                       "autograd": autograd(silu_times)},
                compiled={"compiled formula": compiled_formula,
                          "compiled autograd": lambda compile: autograd(compile(silu_times))},
                expected=expected, part=some_rows)


# ---- fused_linear_cross_entropy

LM_HEAD_SHAPES = [(1024, 16032, 4096), (512, 151936, 896), (1024, 50257, 768), (1024, 32000, 2304)]  # BT, V, H


def lm_head(shape, dtype):
    tokens, words, hidden = shape
    x, w = random((tokens, hidden), dtype), random((words, hidden), dtype).mul_(2 * hidden**-0.5)
    return x, w, torch.randint(words, (tokens,), dtype=torch.int64)


def max_sum_formula(x, w, target):
    logits = F.linear(x, w).float()
    top = logits.amax(dim=1)
    return [top, (logits - top[:, None]).exp_().sum(dim=1), logits.gather(1, target[:, None])[:, 0] - top]


def online_max_sum(library, shape, dtype):
    x, w, target = lm_head(shape, dtype)
    tokens = shape[0]
    result = [torch.zeros(tokens) for _ in range(3)]
    mask, masked = torch.zeros((tokens + 7) // 8, dtype=torch.uint8), torch.zeros(tokens, dtype=torch.int64)

    def log_sum_exp():
        logits = F.linear(x, w).float()
        top = logits.amax(dim=1)
        return [top, (logits.logsumexp(dim=1) - top).exp(), logits.gather(1, target[:, None])[:, 0] - top]

    def compiled(compile):
        function = compile(max_sum_formula)
        return lambda: function(x, w, target)

    def expected():
        return max_sum_formula(some_rows(x).double(), w.double(), some_rows(target))

    ours = library.prepare("FusedLinearOnlineMaxSum", input=x, weight=w, target=target, vocabStartIndex=0,
                           vocabEndIndex=shape[1], logitsMaxLocalOut=result[0], sumExpLogitsLocalOut=result[1],
                           predictedLogitsLocalOut=result[2], targetMaskOut=mask, maskedTargetOut=masked)
    return Case(ours=ours, result=result,
                eager={"eager formula": lambda: max_sum_formula(x, w, target), "eager logsumexp": log_sum_exp},
                compiled={"compiled": compiled}, expected=expected, part=some_rows)


def lm_head_grad_formula(grad, x, w, target, top, total, dtype):
    g = F.linear(x, w).to(top.dtype).sub_(top[:, None]).exp_().div_(total[:, None])
    g[torch.arange(len(x)), target] -= 1
    g = g.mul_(grad[:, None]).to(dtype)
    return [g @ w, g.t() @ x]


# Logits are not kept from a forward pass on either side: a way of PyTorch's computes them as well.
def cross_entropy_grad(library, shape, dtype):
    x, w, target = lm_head(shape, dtype)
    tokens, words = shape[0], shape[1]
    grad = torch.randn(tokens)
    top, total, _ = max_sum_formula(x, w, target)
    mask = torch.zeros((tokens + 7) // 8, dtype=torch.uint8)
    result = [torch.zeros_like(x), torch.zeros_like(w)]
    leaf_x, leaf_w = x.detach().requires_grad_(), w.detach().requires_grad_()

    def autograd(loss):
        return lambda: list(torch.autograd.grad(loss(leaf_x, leaf_w), [leaf_x, leaf_w], grad.to(dtype)))

    def plain(a, b):
        return F.cross_entropy(F.linear(a, b), target, reduction="none")

    def fused(options):
        return autograd(lambda a, b: F.linear_cross_entropy(a, b, target, reduction="none", options=options))

    def compiled_formula(compile):
        function = compile(lm_head_grad_formula)
        return lambda: function(grad, x, w, target, top, total, dtype)

    def expected():
        some = torch.arange(tokens)[:: max(1, tokens // 64)]
        dx = lm_head_grad_formula(grad[some].double(), x[some].double(), w.double(), target[some], top[some].double(),
                                  total[some].double(), torch.float64)[0]
        rows = torch.arange(words)[:: max(1, words // 64)]
        p = (x.double() @ w[rows].double().t() - top[:, None]).exp() / total[:, None]
        g = (p - (target[:, None] == rows[None, :]).double()) * grad[:, None]
        return [dx, g.t() @ x.double()]

    eager = {"eager formula": lambda: lm_head_grad_formula(grad, x, w, target, top, total, dtype),
             "autograd": autograd(plain)}
    if hasattr(F, "linear_cross_entropy"):
        eager["linear_cross_entropy"] = fused(None)
        eager["linear_cross_entropy, chunked"] = fused(torch.nn.LinearCrossEntropyOptions())
    ours = library.prepare("FusedLinearCrossEntropyLossGrad", grad=grad, input=x, weight=w, targetMask=mask,
                           maskedTarget=target, logitsMaxOptional=top, sumExpLogitsOptional=total,
                           inputGradOut=result[0], weightGradOut=result[1])
    return Case(ours=ours, result=result, eager=eager,
                compiled={"compiled formula": compiled_formula,
                          "compiled autograd": lambda compile: autograd(compile(plain))},
                expected=expected, part=some_rows)


HALVES = [torch.bfloat16, torch.float16]

OPERATORS = {
    "SwiGlu": Operator(swi_glu, SWI_GLU_SHAPES, targets(2, 1.3)),
    "SwiGluGrad": Operator(swi_glu_grad, SWI_GLU_SHAPES, targets(4, 1.6)),
    "FusedLinearOnlineMaxSum": Operator(online_max_sum, LM_HEAD_SHAPES, targets(1.2, 2), HALVES),
    "FusedLinearCrossEntropyLossGrad": Operator(cross_entropy_grad, LM_HEAD_SHAPES, targets(1.2, 2), HALVES),
}
