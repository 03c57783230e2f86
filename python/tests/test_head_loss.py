"""gradus.torch.linear_cross_entropy in one process, against f64."""

import importlib

import pytest
from head_reference import Reference

import torch
from torch import Tensor

import gradus
from gradus.torch import linear_cross_entropy

# The module, under the function's own name.
implementation = importlib.import_module("gradus.torch.linear_cross_entropy")
DTYPES = [torch.bfloat16, torch.float16]
SHAPES = [(1, 1, 1), (5, 40, 16), (67, 301, 33), (130, 900, 200)]


def problem(tokens: int, words: int, hidden: int, dtype: torch.dtype, *, ignore: bool = True, seed: int = 0):
    torch.manual_seed(seed)
    x = torch.randn(tokens, hidden).to(dtype).requires_grad_()
    weight = torch.randn(words, hidden).div(hidden**0.5).mul(2).to(dtype).requires_grad_()
    bias = torch.randn(words).to(dtype).requires_grad_()
    target = torch.randint(0, words, (tokens,))
    if ignore and tokens > 1:
        target[1::4] = -100
    return x, weight, bias, target


def panels(monkeypatch, weight: Tensor, rows: int) -> list[tuple[int, int]]:
    monkeypatch.setattr(implementation, "_PANEL_BYTES", rows * weight.element_size() * (weight.shape[1] + 1))
    return [(a, min(a + rows, weight.shape[0])) for a in range(0, weight.shape[0], rows)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_loss_and_gradients(shape, dtype, reduction):
    x, weight, _, target = problem(*shape, dtype)
    reference = Reference(x, weight, target)
    loss = linear_cross_entropy(x, weight, target, reduction=reduction)
    assert loss.dtype == torch.float32
    reference.reduced(reduction).check(loss, "loss")
    upstream = torch.randn(loss.shape)
    loss.backward(upstream)
    scale = 1 / reference.counted.sum() if reduction == "mean" else 1
    expected = reference.gradients(upstream.expand(shape[0]) * scale)
    expected["input"].check(x.grad, "input")
    expected["weight"].check(weight.grad, "weight")
    assert not x.grad[target == -100].any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1000, 100, 7])
def test_bias(dtype, rows, monkeypatch):
    x, weight, bias, target = problem(67, 301, 33, dtype)
    parts = panels(monkeypatch, weight, rows)
    reference = Reference(x, weight, target, bias)
    loss, lse = linear_cross_entropy(x, weight, target, bias=bias, reduction="none", return_lse=True)
    reference.loss.check(loss, "loss")
    reference.lse.check(lse, "lse")
    grad = torch.randn(67)
    loss.backward(grad)
    expected = reference.gradients(grad, parts=parts)
    for name, got in (("input", x.grad), ("weight", weight.grad), ("bias", bias.grad)):
        expected[name].check(got, name)
        assert got.dtype == dtype


# Factors of the loss and of lse: none of one, both, and those that cancel.
@pytest.mark.parametrize(
    "factors", [(1, 0.3), (0, 1), (1, 0), (1, -1), (-0.5, 2), (1e-20, 1), (1e-35, 1), (1, -1e-7), (1e-3, -1)]
)
@pytest.mark.parametrize("with_bias", [False, True])
def test_gradient_of_lse(factors, with_bias, monkeypatch):
    x, weight, bias, target = problem(67, 301, 33, torch.bfloat16)
    bias = bias if with_bias else None
    parts = panels(monkeypatch, weight, 100) if with_bias else None
    loss, lse = linear_cross_entropy(x, weight, target, bias=bias, reduction="none", return_lse=True)
    grad_loss, grad_lse = (torch.full((67,), float(factor)) for factor in factors)
    (loss * grad_loss + lse * grad_lse).sum().backward()
    expected = Reference(x, weight, target, bias).gradients(grad_loss, grad_lse, parts)
    expected["input"].check(x.grad, "input")
    expected["weight"].check(weight.grad, "weight")
    assert not x.grad[target == -100].any()


def test_z_loss_as_one_would_write_it():
    x, weight, _, target = problem(67, 301, 33, torch.bfloat16)
    loss, lse = linear_cross_entropy(x, weight, target, return_lse=True)
    (loss + 1e-2 * lse.square().mean()).backward()
    reference = Reference(x, weight, target)
    grad_loss = torch.full((67,), 1 / reference.counted.sum())
    # lse itself is off by its own rounding, far below that of g.
    expected = reference.gradients(grad_loss, 2e-2 / 67 * lse.detach())
    expected["input"].check(x.grad, "input")
    expected["weight"].check(weight.grad, "weight")


def test_lse_alone_and_rows_mixed():
    x, weight, _, target = problem(67, 301, 33, torch.bfloat16)
    _, lse = linear_cross_entropy(x, weight, target, return_lse=True)
    grad = torch.randn(67)
    grad[::3] = 0
    lse.backward(grad)
    expected = Reference(x, weight, target).gradients(torch.zeros(67), grad)
    expected["input"].check(x.grad, "input")
    expected["weight"].check(weight.grad, "weight")


@pytest.mark.parametrize("lead", [(), (6,), (2, 3), (2, 1, 3), (0,), (2, 0, 3)])
def test_leading_dims(lead):
    torch.manual_seed(0)
    x = torch.randn(*lead, 16).bfloat16().requires_grad_()
    weight = torch.randn(40, 16).bfloat16().requires_grad_()
    target = torch.randint(0, 40, lead)
    loss, lse = linear_cross_entropy(x, weight, target, reduction="none", return_lse=True)
    assert loss.shape == lse.shape == lead
    loss.sum().backward()
    assert x.grad.shape == x.shape
    reference = Reference(x.reshape(-1, 16), weight, target.reshape(-1))
    reference.loss.check(loss.reshape(-1), "loss")
    expected = reference.gradients(torch.ones(target.numel()))
    expected["input"].check(x.grad.reshape(-1, 16), "input")
    expected["weight"].check(weight.grad, "weight")


def test_nothing_counts():
    x, weight, _, target = problem(5, 40, 16, torch.bfloat16)
    target.fill_(-100)
    assert linear_cross_entropy(x, weight, target).isnan()
    assert linear_cross_entropy(x[:0], weight, target[:0]).isnan()
    assert linear_cross_entropy(x[:0], weight, target[:0], reduction="sum") == 0
    loss = linear_cross_entropy(x, weight, target, reduction="sum")
    loss.backward()
    assert loss == 0 and not x.grad.any() and not weight.grad.any()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_ignore_index_that_is_a_word(dtype):
    x, weight, _, target = problem(67, 301, 33, torch.bfloat16, ignore=False)
    target[::3] = 7
    target[1] = 300
    reference = Reference(x, weight, target, ignore_index=7)
    loss = linear_cross_entropy(x, weight, target.to(dtype), ignore_index=7)
    reference.reduced("mean").check(loss, "loss")
    loss.backward()
    expected = reference.gradients(torch.full((67,), 1 / reference.counted.sum()))
    expected["input"].check(x.grad, "input")
    expected["weight"].check(weight.grad, "weight")


def test_views_and_expanded_gradients():
    x, weight, _, target = problem(66, 300, 32, torch.bfloat16)
    plain = linear_cross_entropy(x, weight, target, reduction="none")
    plain.backward(torch.ones(66))
    strided_x = x.detach().T.contiguous().T.requires_grad_()
    strided_weight = weight.detach().repeat(1, 2)[:, 32:].requires_grad_()
    loss = linear_cross_entropy(strided_x, strided_weight, target, reduction="none")
    loss.backward(torch.ones(()).expand(66))
    assert torch.equal(loss, plain)
    assert torch.equal(strided_x.grad, x.grad) and torch.equal(strided_weight.grad, weight.grad)


@pytest.mark.parametrize("wanted", ["input", "weight", "bias", None])
def test_only_one_requires_grad(wanted):
    x, weight, bias, target = (value.detach() for value in problem(67, 301, 33, torch.bfloat16))
    leaves = {"input": x, "weight": weight, "bias": bias}
    for name, leaf in leaves.items():
        leaf.requires_grad_(name == wanted)
    loss = linear_cross_entropy(x, weight, target, bias=bias, reduction="sum")
    assert loss.requires_grad == (wanted is not None)
    if wanted is not None:
        loss.backward()
        Reference(x, weight, target, bias).gradients(torch.ones(67))[wanted].check(leaves[wanted].grad, wanted)
    assert all((leaf.grad is not None) == (name == wanted) for name, leaf in leaves.items())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inside", [False, True])
def test_autocast(dtype, inside):
    """f32 parameters; backward in the region or behind it."""
    x, weight, bias, target = problem(67, 301, 33, dtype)
    leaves = [value.detach().float().requires_grad_() for value in (x, weight, bias)]
    with torch.autocast("cpu", dtype):
        loss = linear_cross_entropy(leaves[0], leaves[1], target, bias=leaves[2], reduction="sum")
        if inside:
            loss.backward()
    if not inside:
        loss.backward()
    reference = Reference(x, weight, target, bias)
    assert loss.dtype == torch.float32
    reference.reduced("sum").check(loss, "loss")
    expected = reference.gradients(torch.ones(67))
    for name, leaf in zip(("input", "weight", "bias"), leaves):
        assert leaf.grad.dtype == torch.float32
        expected[name].check(leaf.grad, name)


def test_autocast_leaves_f64_alone():
    """As it does in torch.nn.functional.linear; nothing of double precision is rounded silently."""
    x, weight, bias, target = (value.double() if value.is_floating_point() else value
                               for value in problem(13, 31, 8, torch.bfloat16))
    with torch.autocast("cpu", torch.bfloat16), gradus.options(precision="golden"):
        loss = linear_cross_entropy(x / 3, weight, target, bias=bias)
    wanted = torch.nn.functional.cross_entropy(x / 3 @ weight.T + bias, target)
    torch.testing.assert_close(loss, wanted, rtol=1e-12, atol=0)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(TypeError, match="weight is torch.float64, expected"):
        linear_cross_entropy(x.float(), weight, target)


@pytest.mark.parametrize("with_bias", [False, True])
def test_no_logits_are_kept(with_bias):
    x, weight, bias, target = problem(64, 3000, 16, torch.bfloat16)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        linear_cross_entropy(x, weight, target, bias=bias if with_bias else None)
    assert max(t.numel() for t in kept) == weight.numel() < 64 * 3000
    twice = 1 if with_bias else 2  # the operands, and without a bias their gradients
    assert sum(t.numel() for t in kept) < twice * (weight.numel() + 64 * 16) + 3000 + 10 * 64


def test_no_second_derivative():
    x, weight, bias, target = problem(5, 40, 16, torch.bfloat16)
    for b in (None, bias):
        (grad,) = torch.autograd.grad(linear_cross_entropy(x, weight, target, bias=b), x, create_graph=True)
        with pytest.raises(RuntimeError, match="derivative"):
            grad.float().square().sum().backward()


def test_graph_walked_twice():
    x, weight, _, target = problem(5, 40, 16, torch.bfloat16)
    loss = linear_cross_entropy(x, weight, target)
    first = torch.autograd.grad(loss, (x, weight), retain_graph=True)
    second = torch.autograd.grad(loss, (x, weight))
    assert all(torch.equal(a, b) for a, b in zip(first, second))


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("factor", [1, 0.25, -8, 3, 0, 1e-30])
def test_factors_behind_the_loss(factor, reduction):
    """Powers of two multiply gradients that are there; for others they are made again. Both within the same bound."""
    x, weight, _, target = problem(130, 900, 200, torch.bfloat16)
    expected = Reference(x, weight, target)
    (linear_cross_entropy(x, weight, target, reduction=reduction) * factor).backward()
    scale = factor / (expected.counted.sum() if reduction == "mean" else 1)
    gradients = expected.gradients(torch.full((130,), 1.0) * scale)
    gradients["input"].check(x.grad, "input")
    gradients["weight"].check(weight.grad, "weight")


def test_the_loss_is_the_same_without_gradients():
    for reduction in ("sum", "mean"):
        x, weight, _, target = problem(130, 900, 200, torch.bfloat16)
        loss = linear_cross_entropy(x, weight, target, reduction=reduction)
        with torch.no_grad():
            assert torch.equal(loss, linear_cross_entropy(x, weight, target, reduction=reduction))


def test_frozen_operands():
    x, weight, _, target = problem(67, 301, 33, torch.bfloat16)
    both = torch.autograd.grad(linear_cross_entropy(x, weight, target), (x, weight))
    for frozen, kept, want in ((weight, x, both[0]), (x, weight, both[1])):
        frozen.requires_grad_(False)
        (got,) = torch.autograd.grad(linear_cross_entropy(x, weight, target), kept)
        assert torch.equal(got, want)
        frozen.requires_grad_(True)


def test_gradients_may_be_written_to():
    """The first walk gives what is kept away; a second one must see it, and not use it."""
    x, weight, _, target = problem(5, 40, 16, torch.bfloat16)
    loss = linear_cross_entropy(x, weight, target)
    loss.backward(retain_graph=True)
    first = weight.grad.clone()
    loss.backward()
    assert torch.equal(weight.grad, 2 * first)


def test_a_token_alone_gives_the_same_bits():
    x, weight, _, target = problem(67, 301, 33, torch.bfloat16)
    loss = linear_cross_entropy(x, weight, target, reduction="none")
    (dx,) = torch.autograd.grad(loss.sum(), x)
    for row in (0, 1, 66):
        alone = x.detach()[row : row + 1].requires_grad_()
        own = linear_cross_entropy(alone, weight, target[row : row + 1], reduction="none")
        own.sum().backward()
        assert torch.equal(own, loss[row : row + 1]) and torch.equal(alone.grad, dx[row : row + 1])


@pytest.mark.parametrize("with_bias", [False, True])
def test_gradcheck_in_golden_f64(with_bias, monkeypatch):
    torch.manual_seed(0)
    leaves = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4, 6), (9, 6), (9,))]
    panels(monkeypatch, leaves[1], 4)
    target = torch.randint(0, 9, (3, 4))
    target[1, 1] = -100

    def loss(x, weight, bias):
        bias = bias if with_bias else None
        return linear_cross_entropy(x, weight, target, bias=bias, reduction="none", return_lse=True)

    with gradus.options(precision="golden"):
        torch.autograd.gradcheck(loss, leaves if with_bias else (*leaves[:2], None))


def test_meta():
    leaves = [value.detach().to("meta").requires_grad_() for value in problem(5, 40, 16, torch.bfloat16)[:3]]
    target = torch.zeros(5, dtype=torch.int64, device="meta")
    for bias in (None, leaves[2]):
        loss, lse = linear_cross_entropy(leaves[0], leaves[1], target, bias=bias, return_lse=True)
        (loss + lse.sum()).backward()
        assert loss.shape == () and lse.shape == (5,) and loss.dtype == torch.float32
    assert all(leaf.grad.shape == leaf.shape and leaf.grad.is_meta for leaf in leaves)


def test_bad_arguments():
    x, weight, bias, target = problem(5, 40, 16, torch.bfloat16)

    def refused(error, words, *args, **kwargs):
        with pytest.raises(error, match=words):
            linear_cross_entropy(*args, **kwargs)

    refused(TypeError, "input is float32.*autocast", x.float(), weight.float(), target)
    refused(TypeError, "weight is torch.float16, expected torch.bfloat16", x, weight.half(), target)
    refused(TypeError, "bias is torch.float32", x, weight, target, bias=bias.float())
    refused(TypeError, "target is torch.float32", x, weight, target.float())
    refused(ValueError, "weight \\[40, 15\\]", x, weight[:, :15], target)
    refused(ValueError, "target \\[4\\], expected \\[5\\]", x, weight, target[:4])
    refused(ValueError, "bias \\[39\\], expected \\[40\\]", x, weight, target, bias=bias[:39])
    refused(ValueError, "reduction is 'average'", x, weight, target, reduction="average")
    refused(ValueError, "vocab_range without group", x, weight, target, vocab_range=(0, 40))
    for bad in (40, -1):
        wrong = target.clone()
        wrong[3] = bad
        refused(IndexError, f"target {bad} of row 3, expected 0 to 39", x, weight, wrong)
