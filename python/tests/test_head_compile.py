"""linear_cross_entropy under torch.compile(fullgraph=True): the operators are the same, so gradients are bit by bit."""

import pytest
from head_reference import of_sum

import torch

from gradus.torch import linear_cross_entropy
from gradus.torch.modules import LinearCrossEntropyLoss, SwiGLUMLP


def fresh(tokens: int, seed: int = 0):
    torch.manual_seed(seed)
    leaves = [torch.randn(tokens, 32), torch.randn(300, 32) / 4, torch.randn(300)]
    target = torch.randint(0, 300, (tokens,))
    target[1::5] = -100
    return [leaf.bfloat16().requires_grad_() for leaf in leaves], target


def plain(x, weight, bias, target):
    return linear_cross_entropy(x, weight, target)


def z_loss(x, weight, bias, target):
    loss, lse = linear_cross_entropy(x, weight, target, reduction="sum", return_lse=True)
    return loss + 1e-2 * lse.square().sum()


def with_bias(x, weight, bias, target):
    return linear_cross_entropy(x.reshape(2, -1, 32), weight, target.reshape(2, -1), bias=bias, ignore_index=7)


def autocast(x, weight, bias, target):
    with torch.autocast("cpu", torch.bfloat16):
        return linear_cross_entropy(x.float(), weight.float(), target, reduction="sum")


@pytest.mark.parametrize("function", [plain, z_loss, with_bias, autocast])
@pytest.mark.parametrize("dynamic", [False, True])
def test_forward_and_backward(function, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic)
    for tokens in (40, 58):
        results = []
        for run in (function, compiled):
            leaves, target = fresh(tokens)
            if function is with_bias:
                target[target == -100] = 7
            loss = run(*leaves, target)
            loss.backward()
            results.append((loss.detach(), [leaf.grad for leaf in leaves]))
        (eager, eager_grads), (loss, grads) = results
        # What the compiler may order anew is the sum over tokens of positive numbers; lse is a factor in z_loss.
        torch.testing.assert_close(loss, eager, rtol=2 * of_sum(tokens), atol=0)
        for got, wanted in zip(grads, eager_grads):
            assert (got is None) == (wanted is None)
            if got is not None and function is not z_loss:
                assert torch.equal(got, wanted)
            elif got is not None:  # a factor that differs in its last bits, then rounded
                atol = 2**-7 * float(wanted.abs().max())
                torch.testing.assert_close(got.float(), wanted.float(), rtol=2**-7, atol=atol)


def test_bad_target_is_heard_of():
    torch._dynamo.reset()
    compiled = torch.compile(plain, fullgraph=True)
    leaves, target = fresh(40)
    target[3] = 300
    with pytest.raises(RuntimeError, match="a target is out of range, expected 0 to 299"):
        compiled(*leaves, target)


def test_modules():
    torch._dynamo.reset()
    torch.manual_seed(0)
    mlp, head = SwiGLUMLP(32, 48, dtype=torch.bfloat16), LinearCrossEntropyLoss(32, 300, dtype=torch.bfloat16)
    x, target = torch.randn(2, 20, 32).bfloat16(), torch.randint(0, 300, (2, 20))
    parameters = [*mlp.parameters(), *head.parameters()]
    results = []
    for run in (lambda: head(mlp(x), target), torch.compile(lambda: head(mlp(x), target), fullgraph=True)):
        loss = run()
        results.append((loss.detach(), torch.autograd.grad(loss, parameters)))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=2 * of_sum(40), atol=0)
    for eager, got in zip(results[0][1], results[1][1]):
        torch.testing.assert_close(got.float(), eager.float(), rtol=2**-7, atol=2**-7 * float(eager.abs().max()))
