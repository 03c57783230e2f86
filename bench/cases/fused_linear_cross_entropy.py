import torch
import torch.nn.functional as F

from .case import HALVES, Case, Operator, random, some_rows, targets

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
                eager={"eager formula in f32": lambda: max_sum_formula(x.float(), w.float(), target),
                       "eager formula": lambda: max_sum_formula(x, w, target), "eager logsumexp": log_sum_exp},
                compiled={"compiled": compiled}, expected=expected, part=some_rows)


def lm_head_grad_formula(grad, x, w, target, top, total, dtype):
    g = F.linear(x, w).to(top.dtype).sub_(top[:, None]).exp_().div_(total[:, None])
    g[torch.arange(len(x)), target] -= 1
    g = g.mul_(grad[:, None]).to(dtype)
    return [g @ w, g.t() @ x]


# Logits are not kept from a forward pass on either side: a way of PyTorch's computes them as well. The formula in f32
# is the fastest where a CPU has no products of 16-bit numbers.
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

    def in_f32():
        wide = lm_head_grad_formula(grad, x.float(), w.float(), target, top, total, torch.float32)
        return [result.to(dtype) for result in wide]

    eager = {"eager formula in f32": in_f32,
             "eager formula": lambda: lm_head_grad_formula(grad, x, w, target, top, total, dtype),
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


OPERATORS = {
    "FusedLinearOnlineMaxSum": Operator(online_max_sum, LM_HEAD_SHAPES, targets(1.2, 2), HALVES),
    "FusedLinearCrossEntropyLossGrad": Operator(cross_entropy_grad, LM_HEAD_SHAPES, targets(1.2, 2), HALVES),
}
