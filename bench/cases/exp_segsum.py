import torch

from .case import Case, Operator, random, targets

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


OPERATORS = {
    "ExpSegsum": Operator(exp_segsum, EXP_SEGSUM_SHAPES, targets(10, 8)),
    "ExpSegsumBackward": Operator(exp_segsum_backward, EXP_SEGSUM_SHAPES, targets(12, 8)),
}
