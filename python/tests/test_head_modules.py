"""gradus.torch.modules against f64."""

import head_reference
import pytest

import torch
from torch import nn

from gradus.torch.modules import ExpSegsum, LinearCrossEntropyLoss, NSASelectedAttention, ScaledMaskedSoftmax, SwiGLUMLP


@pytest.mark.parametrize("bias", [False, True])
def test_swiglu_mlp(bias):
    torch.manual_seed(0)
    mlp = SwiGLUMLP(24, 40, bias=bias)
    x = torch.randn(2, 5, 24, requires_grad=True)
    exact, x64 = SwiGLUMLP(24, 40, bias=bias).double(), x.detach().double().requires_grad_()
    exact.load_state_dict(mlp.state_dict())
    gate, up = nn.functional.linear(x64, exact.gate_up_proj.weight, exact.gate_up_proj.bias).chunk(2, -1)
    expected = exact.down_proj(nn.functional.silu(gate) * up)
    y = mlp(x)
    grad = torch.randn_like(y)
    y.backward(grad)
    expected.backward(grad.double())
    parameters = [(p.grad, q.grad) for p, q in zip(mlp.parameters(), exact.parameters())]
    # Up to three sums of f32 one after the other, and the elements between.
    for got, wanted in [(y, expected), (x.grad, x64.grad), *parameters]:
        assert (got.double() - wanted).abs().max() <= 4 * head_reference.of_sum(40) * wanted.abs().max()


def test_linear_cross_entropy_loss_is_torchs():
    torch.manual_seed(0)
    head = LinearCrossEntropyLoss(24, 200, bias=True, dtype=torch.bfloat16, ignore_index=3, return_lse=True)
    x, target = torch.randn(2, 7, 24).bfloat16(), torch.randint(0, 200, (2, 7))
    target[0, :2] = 3
    reference = head_reference.Reference(
        x.reshape(-1, 24), head.linear.weight, target.reshape(-1), head.linear.bias, ignore_index=3
    )
    loss, lse = head(x, target)
    reference.reduced("mean").check(loss, "loss")
    reference.lse.check(lse.reshape(-1), "lse")
    if hasattr(nn, "LinearCrossEntropyLoss"):
        torchs = nn.LinearCrossEntropyLoss(24, 200, bias=True)
        assert list(torchs.state_dict()) == list(head.state_dict())


def test_linear_cross_entropy_loss_ties():
    embedding, head = nn.Embedding(50, 16, dtype=torch.bfloat16), LinearCrossEntropyLoss(16, 50, dtype=torch.bfloat16)
    head.linear.weight = embedding.weight
    ids = torch.randint(0, 50, (9,))
    head(embedding(ids), ids).backward()
    weight = embedding.weight.detach().double().requires_grad_()
    nn.functional.cross_entropy(weight[ids] @ weight.T, ids).backward()
    error = (embedding.weight.grad.double() - weight.grad).norm() / weight.grad.norm()
    assert error <= 4 * 2.0**-8  # two bf16 gradients and their bf16 sum


def test_scaled_masked_softmax():
    torch.manual_seed(0)
    x, mask = torch.randn(2, 3, 5, 7, requires_grad=True), torch.rand(2, 1, 5, 7) < 0.4
    y = ScaledMaskedSoftmax(0.5)(x, mask)
    x64 = x.detach().double().requires_grad_()
    expected = torch.where(mask, -10000.0, x64 * 0.5).softmax(-1)
    grad = torch.randn_like(y)
    y.backward(grad)
    expected.backward(grad.double())
    assert (y.double() - expected).abs().max() <= 4 * 2.0**-23
    assert (x.grad.double() - x64.grad).abs().max() <= 4 * 2.0**-23 * 2 * float(grad.abs().max())


def test_exp_segsum():
    torch.manual_seed(0)
    a = torch.randn(2, 3, 9, requires_grad=True)
    y = ExpSegsum()(a)
    a64 = a.detach().double().requires_grad_()
    sums = [[a64[..., j + 1 : i + 1].sum(-1) if j <= i else None for j in range(9)] for i in range(9)]
    zero = torch.zeros(2, 3).double()
    expected = torch.stack([torch.stack([zero if s is None else s.exp() for s in row], -1) for row in sums], -2)
    grad = torch.randn_like(y)
    y.backward(grad)
    expected.backward(grad.double())
    size = float((grad.double() * expected.detach()).abs().sum((-1, -2)).max())
    assert ((y.double() - expected).abs() <= (a64.detach().abs().sum() + 2) * 2.0**-24 * expected).all()
    assert (a.grad.double() - a64.grad).abs().max() <= head_reference.of_sum(81) * size


@pytest.mark.parametrize("causal", [False, True])
def test_nsa_selected_attention(causal):
    torch.manual_seed(0)
    rows, heads, width, size = 40, 2, 16, 16
    q, k, v = (torch.randn(rows, heads, width).bfloat16().requires_grad_() for _ in range(3))
    blocks = torch.stack([torch.stack([torch.randperm(2)[:2] for _ in range(heads)]) for _ in range(rows)])
    out = NSASelectedAttention(block_size=size, block_count=2, causal=causal)(q, k, v, blocks)
    q64, k64, v64 = (t.detach().double().requires_grad_() for t in (q, k, v))
    # Both blocks of 16 out of 40 keys are selected, in some order: keys 0 to 31.
    score = torch.einsum("ihd,jhd->hij", q64, k64) * width**-0.5
    seen = torch.arange(rows)[None, :] < 32
    if causal:
        seen = seen & (torch.arange(rows)[None, :] <= torch.arange(rows)[:, None])
    p = score.masked_fill(~seen, float("-inf")).softmax(-1)
    expected = torch.einsum("hij,jhd->ihd", p, v64)
    grad = torch.randn(rows, heads, width).bfloat16()
    out.backward(grad)
    expected.backward(grad.double())
    # P and dS are rounded to bf16, and the results.
    for got, wanted in ((out, expected), (q.grad, q64.grad), (k.grad, k64.grad), (v.grad, v64.grad)):
        assert (got.double() - wanted).norm() <= 4 * 2.0**-8 * wanted.norm()
