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


# ---- scaled_masked_softmax

SOFTMAX_SHAPES = [(4, 32, 1024, 1024), (4, 4, 2048, 2048), (1, 4, 4096, 4096), (16, 6, 512, 512)]
SOFTMAX_SCALE = 0.125


def causal_mask(shape):
    """True above the diagonal, one for all heads of a batch."""
    return torch.ones(shape[0], 1, *shape[2:], dtype=torch.bool).triu(1)


def masked_softmax(x, mask):
    return torch.softmax((x * SOFTMAX_SCALE).masked_fill(mask, -10000.0), -1)


def some_matrices(x):
    return x[:1, :1]


def scaled_masked_softmax(library, shape, dtype):
    x, mask = random(shape, dtype), causal_mask(shape)
    y, y_peer, scores = torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(x)

    def in_place():
        torch.mul(x, SOFTMAX_SCALE, out=scores)
        torch.softmax(scores.masked_fill_(mask, -10000.0), -1, out=y_peer)
        return [y_peer]

    def compiled(compile):
        function = compile(masked_softmax)
        return lambda: [function(x, mask)]

    return Case(ours=library.prepare("ScaledMaskedSoftmax", x=x, mask=mask, scale=SOFTMAX_SCALE, fixTriuMask=False, y=y),
                result=[y], eager={"eager": lambda: [masked_softmax(x, mask)], "eager, out=": in_place},
                compiled={"compiled": compiled},
                expected=lambda: [masked_softmax(some_matrices(x).double(), mask[:1])], part=some_matrices)


def masked_softmax_grad_formula(g, y, mask):
    t = g * y
    return ((t - t.sum(-1, keepdim=True) * y) * SOFTMAX_SCALE).masked_fill(mask, 0.0)


def scaled_masked_softmax_backward(library, shape, dtype):
    x, g, mask = random(shape, dtype), random(shape, dtype), causal_mask(shape)
    y = masked_softmax(x, mask)
    out, out_peer = torch.zeros_like(x), torch.zeros_like(x)
    leaf = x.detach().requires_grad_()

    def fused():
        torch.ops.aten._softmax_backward_data.out(g, y, -1, dtype, grad_input=out_peer)
        out_peer.mul_(SOFTMAX_SCALE).masked_fill_(mask, 0.0)
        return [out_peer]

    def autograd(function):
        value = function(leaf, mask)
        return lambda: list(torch.autograd.grad(value, leaf, g, retain_graph=True))

    def compiled_formula(compile):
        function = compile(masked_softmax_grad_formula)
        return lambda: [function(g, y, mask)]

    def expected():
        g1, y1 = some_matrices(g).double(), some_matrices(y).double()
        return [masked_softmax_grad_formula(g1, y1, mask[:1])]

    return Case(ours=library.prepare("ScaledMaskedSoftmaxBackward", gradOutput=g, y=y, mask=mask, scale=SOFTMAX_SCALE,
                                     fixTriuMask=False, out=out), result=[out],
                eager={"eager formula": lambda: [masked_softmax_grad_formula(g, y, mask)],
                       "eager _softmax_backward_data, out=": fused, "autograd": autograd(masked_softmax)},
                compiled={"compiled formula": compiled_formula,
                          "compiled autograd": lambda compile: autograd(compile(masked_softmax))},
                expected=expected, part=some_matrices)


# ---- exp_segsum

EXP_SEGSUM_SHAPES = [(1, 80, 16, 256, 256), (2, 16, 32, 128, 128), (1, 64, 32, 64, 64), (1, 80, 17, 17)]


def every_few(x):
    return x[:, :: max(1, x.shape[1] // 4)]


def decays(shape, dtype):
    """Rates of a model: the matrix fades below the diagonal, and stays in the range of all dtypes."""
    return (-0.3 * torch.rand(shape, dtype=torch.float32)).to(dtype)


def segments(x):
    """x repeated along a new last dim, without what no segment contains: row i, column j holds x[i] for j < i."""
    t = x.shape[-1]
    below = torch.ones(t, t, dtype=torch.bool).tril(-1)
    return x.unsqueeze(-1).expand(*x.shape, t).masked_fill(~below, 0)


def exp_segsum_literal(x):
    t = x.shape[-1]
    upper = torch.ones(t, t, dtype=torch.bool).triu(1)
    return segments(x).cumsum(-2).masked_fill(upper, float("-inf")).exp()


def exp_segsum_prefix(x):
    """Differences of prefix sums: fewer steps, but they cancel; the sums themselves need f32."""
    t = x.shape[-1]
    sums = x.float().cumsum(-1)
    upper = torch.ones(t, t, dtype=torch.bool).triu(1)
    return (sums.unsqueeze(-1) - sums.unsqueeze(-2)).masked_fill(upper, float("-inf")).exp().to(x.dtype)


def exp_segsum(library, shape, dtype):
    x = decays(shape[:-1], dtype)
    y = torch.zeros(shape, dtype=dtype)

    def compiled(function):
        def way(compile):
            call = compile(function)
            return lambda: [call(x)]
        return way

    return Case(ours=library.prepare("ExpSegsum", self=x, out=y), result=[y],
                eager={"eager literal": lambda: [exp_segsum_literal(x)], "eager prefix sums": lambda: [exp_segsum_prefix(x)]},
                compiled={"compiled literal": compiled(exp_segsum_literal), "compiled prefix sums": compiled(exp_segsum_prefix)},
                expected=lambda: [exp_segsum_literal(every_few(x).double())], part=every_few)


def exp_segsum_backward_literal(g, y):
    t = y.shape[-1]
    upper = torch.ones(t, t, dtype=torch.bool).triu(0)
    sums = (g * y).masked_fill(upper, 0).flip(-2).cumsum(-2).flip(-2)
    return sums.masked_fill(upper, 0).sum(-1)


def exp_segsum_backward_sums(g, y):
    """out[k] - out[k + 1] is a row sum less a column sum; quick, but the differences cancel."""
    t = y.shape[-1]
    upper = torch.ones(t, t, dtype=torch.bool).triu(0)
    p = (g * y).masked_fill(upper, 0)
    change = p.sum(-1, dtype=torch.float32) - p.sum(-2, dtype=torch.float32)
    return change.flip(-1).cumsum(-1).flip(-1).to(y.dtype)


def exp_segsum_backward(library, shape, dtype):
    x = decays(shape[:-1], dtype)
    y = exp_segsum_literal(x)
    g = random(shape, dtype) / 16  # sums of order 1, or peers that round on the way would count as wrong
    out = torch.zeros(shape[:-1], dtype=dtype)
    leaf = x.detach().requires_grad_()

    def autograd(function):
        result = function(leaf)
        return lambda: list(torch.autograd.grad(result, leaf, g, retain_graph=True))

    def compiled(function):
        def way(compile):
            call = compile(function)
            return lambda: [call(g, y)]
        return way

    def expected():
        return [exp_segsum_backward_literal(every_few(g).double(), every_few(y).double())]

    return Case(ours=library.prepare("ExpSegsumBackward", gradOutput=g, gradSelf=y, gradInput=out), result=[out],
                eager={"eager literal": lambda: [exp_segsum_backward_literal(g, y)],
                       "eager row and column sums": lambda: [exp_segsum_backward_sums(g, y)],
                       "autograd": autograd(exp_segsum_literal)},
                compiled={"compiled literal": compiled(exp_segsum_backward_literal),
                          "compiled row and column sums": compiled(exp_segsum_backward_sums),
                          "compiled autograd": lambda compile: autograd(compile(exp_segsum_literal))},
                expected=expected, part=every_few)


OPEROPERATORS = {
    "ScaledMaskedSoftmax": Operator(scaled_masked_softmax, SOFTMAX_SHAPES, targets(3, 2.5)),
    "ScaledMaskedSoftmaxBackward": Operator(scaled_masked_softmax_backward, SOFTMAX_SHAPES, targets(4, 3)),
    "ExpSegsum": Operator(exp_segsum, EXP_SEGSUM_SHAPES, targets(10, 8)),
    "ExpSegsumBackward": Operator(exp_segsum_backward, EXP_SEGSUM_SHAPES, targets(12, 8)),
    "SwiGlu": Operator(swi_glu, SWI_GLU_SHAPES, targets(2, 1.3)),
    "SwiGluGrad": Operator(swi_glu_grad, SWI_GLU_SHAPES, targets(4, 1.6)),
}
