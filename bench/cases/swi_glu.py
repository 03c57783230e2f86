import torch
import torch.nn.functional as F

from .case import Case, Operator, random, some_rows, targets

SWI_GLU_SHAPES = [(4096, 1, 22016), (4096, 1, 7168), (8192, 1, 7808), (2048, 28672)]


def halves(x):
    n = x.shape[-1] // 2
    return x[..., :n], x[..., n:]


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


OPERATORS = {
    "SwiGlu": Operator(swi_glu, SWI_GLU_SHAPES, targets(2, 1.3)),
    "SwiGluGrad": Operator(swi_glu_grad, SWI_GLU_SHAPES, targets(4, 1.6)),
}
