"""Results and gradients against f64 formulas and PyTorch's autograd of them; gradcheck in golden f64."""

import math

import gradus
import gradus.torch as F
import pytest
import torch
import torch.utils.checkpoint
import torch_formulas as exact
from torch import Tensor
from torch.autograd import forward_ad
from torch_formulas import EPS, assert_near, c

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
HALVES = DTYPES[1:]
OPS = torch.ops.gradus


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def leaf(*shape: int, dtype: torch.dtype = torch.float32, std: float = 1.0) -> Tensor:
    return (torch.randn(shape) * std).to(dtype).requires_grad_()


def f64(*tensors: Tensor) -> list[Tensor]:
    return [t.detach().double().requires_grad_(t.is_floating_point()) for t in tensors]


def swiglu_bounds(x: Tensor, grad: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The largest terms of results and gradients."""
    a, b = x.abs().chunk(2, dim)
    s = torch.sigmoid(x.chunk(2, dim)[0])
    return a * s * b, torch.cat((grad.abs() * b * (s + s * (1 - s) * a), grad.abs() * a * s), dim)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, dim", [((5, 34), -1), ((6, 3, 7), 0), ((2, 10, 5), 1), ((8,), 0)])
def test_swiglu(dtype, shape, dim):
    x = leaf(*shape, dtype=dtype, std=3)
    y = F.swiglu(x, dim)
    grad = torch.randn(y.shape).to(dtype)
    y.backward(grad)
    (r,) = f64(x)
    exact.swiglu(r, dim).backward(grad.double())
    forward, backward = swiglu_bounds(r.detach(), grad.double(), dim)
    assert_near(y, exact.swiglu(r, dim).detach(), 8 * 2.0**-24 * forward, units=2)
    assert_near(x.grad, r.grad, 8 * 2.0**-24 * backward, units=2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("apart", [False, True])
def test_silu_mul(dtype, dim, apart):
    x = leaf(4, 6, 10, dtype=dtype)
    gate, up = x.chunk(2, dim)
    y = F.silu_mul(gate.clone(), up.clone()) if apart else F.silu_mul(gate, up)
    assert torch.equal(y, F.swiglu(x, dim))
    grad = torch.randn(y.shape).to(dtype)
    y.backward(grad)
    assert torch.equal(x.grad, OPS.swi_glu_grad(grad, x.detach(), dim))


def test_silu_mul_of_what_hooks_have_moved():
    x = leaf(4, 10)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        F.silu_mul(*x.chunk(2, -1)).backward(torch.ones(4, 5))
    assert torch.equal(x.grad, OPS.swi_glu_grad(torch.ones(4, 5), x.detach(), -1))


def test_silu_mul_notices_changes():
    x = leaf(4, 10)
    h = x * 1
    y = F.silu_mul(h[:, :5], h[:, 5:])
    with torch.no_grad():
        h[:, 9] = 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_silu_mul_of_what_only_looks_adjacent():
    x, other = torch.randn(3, 4, 8), torch.randn(3, 4, 8)
    for gate, up in [(x[..., 4:], x[..., :4]), (x[0], x[2]), (x[0], x[0]), (x[..., :4], x[..., 3:7]),
                     (x[..., :4], other[..., 4:])]:
        assert_near(F.silu_mul(gate, up), exact.swiglu(torch.cat((gate, up), -1).double()), 0, units=8)
    with pytest.raises(ValueError, match=r"up has shape \(4,\), expected that of gate, \(8,\)"):
        F.silu_mul(torch.ones(8), torch.ones(4))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3, 33), (1, 2, 2, 17), (3, 9), (40,)])
def test_exp_segsum(dtype, shape):
    a = (torch.rand(shape) - 0.8).to(dtype).requires_grad_()
    y = F.exp_segsum(a)
    grad = torch.randn(y.shape).to(dtype)
    y.backward(grad)
    (r,) = f64(a)
    want = exact.exp_segsum(r)
    want.backward(grad.double())
    relative = (exact.segments(a.detach().double().abs()).clamp(min=0) + 2) * 2.0**-24
    assert_near(y, want.detach(), relative * want.detach())
    # The gradient sees the rounded y: that much of every term, then a sum over i >= k > j.
    terms = (grad.double() * want.detach()).abs()
    n = shape[-1]
    sums = torch.stack([terms[..., k:, :k].sum((-1, -2)) for k in range(n)], -1)
    assert_near(a.grad, r.grad, (EPS[dtype] + relative.max() + c(n * n)) * sums)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "mask_shape", [(2, 3, 5, 37), (2, 1, 5, 37), (1, 1, 5, 37), (5, 37), (2, 1, 1, 37), (37,), (3, 1, 1)]
)
def test_scaled_masked_softmax(dtype, mask_shape):
    x, mask, scale = leaf(2, 3, 5, 37, dtype=dtype), torch.rand(mask_shape) < 0.4, 0.7
    y = F.scaled_masked_softmax(x, mask, scale)
    grad = torch.randn(y.shape).to(dtype)
    y.backward(grad)
    (r,) = f64(x)
    want = exact.scaled_masked_softmax(r, mask, scale)
    want.backward(grad.double())
    w, g, largest = want.detach(), grad.double(), float(r.detach().abs().max()) * scale
    # exp of a difference of rounded z, one unit of exp itself, over a sum of the same
    relative = 2 * (2 + 4 * largest) * 2.0**-24 + c(37)
    assert_near(y, w, relative * w)
    magnitude = scale * w * (g.abs() + (g * w).abs().sum(-1, keepdim=True))
    assert_near(x.grad, r.grad, (2 * (EPS[dtype] + relative) + c(37)) * magnitude)
    assert (x.grad[mask.expand_as(x)] == 0).all()


def test_scaled_masked_softmax_of_fewer_dims():
    x, mask = torch.randn(5, 7), torch.rand(7) < 0.4
    assert torch.equal(F.scaled_masked_softmax(x, mask, 0.5), F.scaled_masked_softmax(x[None, None], mask, 0.5)[0, 0])


def nsa_case(dtype, rows_q=40, rows_kv=48, heads=(4, 2), depth=(24, 16), count=2):
    q, k = leaf(rows_q, heads[0], depth[0], dtype=dtype), leaf(rows_kv, heads[1], depth[0], dtype=dtype)
    v = leaf(rows_kv, heads[1], depth[1], dtype=dtype)
    indices = torch.randint(-1, math.ceil(rows_kv / 16) + 1, (rows_q, heads[1], count))
    return q, k, v, indices


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("ends", [None, ([15, 40], [20, 48]), ([0, 15, 40], [20, 48]), ([0, 15, 40], [0, 20, 48])])
def test_nsa_selected_attention(dtype, causal, ends):
    q, k, v, indices = nsa_case(dtype)
    seq_q, seq_kv = ends or (None, None)
    scale = 0.3
    out = F.nsa_selected_attention(q, k, v, indices, scale=scale, block_size=16, block_count=2, causal=causal,
                                   seq_q=seq_q, seq_kv=seq_kv)
    grad = torch.randn(out.shape).to(dtype)
    out.backward(grad)
    r = f64(q, k, v)
    weights = exact.nsa_weights(indices, 40, 48, 16, causal, *([e for e in s if e] for s in ends or ([], [])))
    want = exact.nsa(*r, weights, scale)
    want.backward(grad.double())

    rq, rk, rv, g = r[0].detach(), *(exact._heads(t.detach(), q) for t in r[1:]), grad.double()
    p = exact.nsa_probabilities(rq, r[1].detach(), weights, scale)
    n = 2 * 16
    scores = (c(24) + 2.0**-23) * scale * torch.einsum("thd,jhd->thj", rq.abs(), rk.abs()).amax(-1, keepdim=True)
    e = 2 * scores + c(n)  # of P, relative
    rounded = EPS[dtype]   # of P and dS, before their products
    assert_near(out, want.detach(), torch.einsum("thj,jhd->thd", (e + rounded + c(n)) * p, rv.abs()))
    products = torch.einsum("thd,jhd->thj", g.abs(), rv.abs())
    dp = torch.einsum("thd,jhd->thj", g, rv)
    ds = p * (dp - (p * dp).sum(-1, keepdim=True))
    magnitude = p * (products + (p * products).sum(-1, keepdim=True))
    off = rounded * ds.abs() + (3 * e + 4 * c(n * 40)) * magnitude  # of dS, its later sum included
    fold = lambda t: t.unflatten(1, (2, 2)).sum(2)  # over the query heads of a key head
    assert_near(q.grad, r[0].grad, scale * torch.einsum("thj,jhd->thd", off, rk.abs()))
    assert_near(k.grad, r[1].grad, fold(scale * torch.einsum("thj,thd->jhd", off, rq.abs())))
    assert_near(v.grad, r[2].grad, fold(torch.einsum("thj,thd->jhd", (e + rounded + c(n * 40)) * p, g.abs())))


def test_gradients_may_be_expanded_or_transposed():
    x = leaf(6, 8)
    for grad in (torch.randn(()).expand(6, 4), torch.randn(4, 6).t(), torch.randn(1, 4).expand(6, 4)):
        x.grad = None
        F.swiglu(x).backward(grad)
        assert torch.equal(x.grad, OPS.swi_glu_grad(grad.contiguous(), x.detach(), -1))


@pytest.mark.parametrize("family", ["swiglu", "silu_mul", "exp_segsum", "softmax", "nsa", "cross entropy"])
def test_checkpoints_compute_them_again(family):
    """What an operator has kept is made anew inside its own gradient, where it is the last of what is checkpointed."""
    mask, target, half = torch.rand(3, 8) < 0.3, torch.randint(0, 9, (3,)), torch.bfloat16
    x, w = leaf(3, 8), torch.randn(9, 8).to(half)
    function = {
        "swiglu": lambda x: F.swiglu(2 * x),
        "silu_mul": lambda x: F.silu_mul(*(2 * x).chunk(2, -1)),
        "exp_segsum": lambda x: F.exp_segsum(x / 2),
        "softmax": lambda x: F.scaled_masked_softmax(2 * x, mask),
        "nsa": lambda x: F.nsa_selected_attention(*3 * [x.to(half)[:, None]], torch.zeros(3, 1, 1, dtype=torch.int32),
                                                  scale=1.0, block_size=16, block_count=1),
        "cross entropy": lambda x: F.linear_cross_entropy(x.to(half), w, target),
    }[family]
    (want,) = torch.autograd.grad(function(x).float().square().sum(), x)
    for reentrant in (False, True):
        y = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=reentrant)
        x.grad = None
        y.float().square().sum().backward()
        assert torch.equal(x.grad, want)


# What a first gradient is worth in f64: central differences, by gradcheck.

def f64_leaf(*shape):
    return torch.randn(shape, dtype=torch.float64).requires_grad_()


class CrossEntropy(torch.autograd.Function):
    """The three operators of the family as one loss, as a trainer would call them."""

    @staticmethod
    def forward(ctx, x, weight, target):
        max, sum, predicted, mask, masked, _ = OPS.fused_linear_online_max_sum(x, weight, target, 1, 7, False)
        loss, _ = OPS.fused_cross_entropy_loss_with_max_sum(max, sum, predicted, None)
        ctx.save_for_backward(x, weight, mask, masked, max, sum)
        # of a shard, the loss leaves out what the maximum is for tokens whose target is elsewhere
        outside = (target < 1) | (target >= 7)
        return loss + torch.where(outside, max, torch.zeros_like(max))

    @staticmethod
    def backward(ctx, grad):
        x, weight, mask, masked, max, sum = ctx.saved_tensors
        dx, dw = OPS.fused_linear_cross_entropy_loss_grad(grad, x, weight, mask, masked, max, sum, None)
        return dx, dw, None


@pytest.mark.parametrize("family", ["swiglu", "silu_mul", "exp_segsum", "softmax", "nsa", "nsa full", "cross entropy"])
def test_gradcheck(family):
    mask, target = torch.rand(1, 1, 3, 5) < 0.3, torch.randint(0, 9, (5,))
    indices = torch.randint(0, 3, (20, 1, 2))
    attention = dict(scale=0.4, block_size=16, block_count=2)
    cases = {
        "swiglu": (lambda x: F.swiglu(x, 1), f64_leaf(3, 6, 2)),
        "silu_mul": (F.silu_mul, f64_leaf(3, 4), f64_leaf(3, 4)),
        "exp_segsum": (F.exp_segsum, f64_leaf(2, 1, 7)),
        "softmax": (lambda x: F.scaled_masked_softmax(x, mask, 0.6), f64_leaf(2, 2, 3, 5)),
        "nsa": (lambda q, k, v: F.nsa_selected_attention(q, k, v, indices, **attention),
                f64_leaf(20, 2, 4), f64_leaf(35, 1, 4), f64_leaf(35, 1, 3)),
        "nsa full": (lambda q, k, v: F.nsa_selected_attention(q, k, v, indices, causal=False, **attention),
                     f64_leaf(20, 2, 4), f64_leaf(35, 1, 4), f64_leaf(35, 1, 3)),
        "cross entropy": (lambda x, w: CrossEntropy.apply(x, w, target), f64_leaf(5, 4), f64_leaf(6, 4)),
    }
    function, *inputs = cases[family]
    with gradus.options(precision="golden"):
        assert torch.autograd.gradcheck(function, inputs)


def test_double_backward_says_so():
    x = leaf(4, 8)
    (first,) = torch.autograd.grad(F.swiglu(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="swi_glu_grad has no derivative; second derivatives are not implemented"):
        first.sum().backward()
    gate, up = leaf(4, 8).chunk(2, -1)
    (first,) = torch.autograd.grad(F.silu_mul(gate, up).square().sum(), gate, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivatives"):
        first.sum().backward()


def test_forward_mode_says_so():
    """A tangent that got lost would be a derivative of zero."""
    x, mask = torch.randn(1, 1, 4, 8), torch.zeros(4, 8, dtype=torch.bool)
    functions = (F.swiglu, lambda x: F.exp_segsum(x[0]), lambda x: F.scaled_masked_softmax(x, mask))
    for function in functions:
        with pytest.raises(RuntimeError, match="setup_context"):
            torch.func.jvp(function, (x,), (x,))
        with forward_ad.dual_level():
            assert torch.equal(function(x), function(x.detach()))
            with pytest.raises(RuntimeError, match="jvp"):
                function(forward_ad.make_dual(x, x))


def test_operators_without_a_gradient_say_what_has_one():
    x, w, target = leaf(4, 8, dtype=torch.bfloat16), leaf(16, 8, dtype=torch.bfloat16), torch.zeros(4).long()
    max, *_ = OPS.fused_linear_online_max_sum(x, w, target, 0, 16, False)
    with pytest.raises(RuntimeError, match="gradus.torch.linear_cross_entropy has one"):
        max.sum().backward()
