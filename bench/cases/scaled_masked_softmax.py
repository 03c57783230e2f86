import torch

from .case import Case, Operator, random, targets

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


OPERATORS = {
    "ScaledMaskedSoftmax": Operator(scaled_masked_softmax, SOFTMAX_SHAPES, targets(3, 2.5)),
    "ScaledMaskedSoftmaxBackward": Operator(scaled_masked_softmax_backward, SOFTMAX_SHAPES, targets(4, 3)),
}
