"""torch.compile without graph breaks, forward and backward, with shapes that change; autocast."""

import gradus.torch as F
import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def swiglu(n):
    return (torch.randn(n, 3, 8),)


def softmax(n):
    return torch.randn(2, 3, n, n + 1), torch.rand(n, n + 1) < 0.3


def attention(n):
    q, k, v = (torch.randn(16 * n, heads, 8).bfloat16() for heads in (4, 2, 2))
    return q, k, v, torch.randint(0, n, (16 * n, 2, 2))


BLOCKS = dict(block_size=16, block_count=2)
FUNCTIONS = {
    "swiglu": (lambda x: F.swiglu(x.sin(), -1).cos(), swiglu),
    "swiglu transposed": (lambda x: F.swiglu(x.mT, 1).mT * 2, swiglu),
    "silu_mul": (lambda x: F.silu_mul(*(x * 2).chunk(2, -1)), swiglu),
    "exp_segsum": (lambda x: F.exp_segsum(-x.abs()) + 1, swiglu),
    "softmax": (lambda x, mask: F.scaled_masked_softmax(x * 2, mask, 0.5) @ x.mT, softmax),
    "attention": (lambda q, k, v, i: F.nsa_selected_attention(q * 2, k, v, i, **BLOCKS, scale=0.3) + 1, attention),
}


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_compiled_is_eager(name):
    function, make = FUNCTIONS[name]
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
    for n in (5, 3, 9):
        inputs = [t.requires_grad_(t.is_floating_point()) for t in make(n)]
        again = [t.detach().requires_grad_(t.requires_grad) for t in inputs]
        want, got = function(*inputs), compiled(*again)
        torch.testing.assert_close(got, want)  # the work around the operator is the compiler's
        grad = torch.randn_like(want)
        want.backward(grad)
        got.backward(grad)
        for a, b in zip(inputs, again):
            torch.testing.assert_close(a.grad, b.grad)
    assert counter.frame_count == 1


def test_compiled_scale_and_lengths_are_arguments():
    @torch.compile(fullgraph=True, dynamic=True, backend="aot_eager")
    def run(q, k, v, i, scale, ends):
        return F.nsa_selected_attention(q, k, v, i, scale=scale, seq_q=ends, seq_kv=ends, **BLOCKS)

    q, k, v, indices = attention(3)
    for scale, ends in ((0.5, [16, 48]), (0.25, [0, 7, 48])):
        want = F.nsa_selected_attention(q, k, v, indices, scale=scale, seq_q=ends, seq_kv=ends, **BLOCKS)
        assert torch.equal(run(q, k, v, indices, scale, ends), want)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_lowers_products_and_nothing_else(dtype):
    q, k, v, indices = attention(3)
    q, k, v = (t.float().requires_grad_() for t in (q, k, v))
    x, weight = torch.randn(2, 1, 4, 6, requires_grad=True), torch.randn(16, 8)
    options = dict(scale=0.3, **BLOCKS)
    with torch.autocast("cpu", dtype):
        out = F.nsa_selected_attention(q, k, v, indices, **options)
        kept = F.swiglu(x), F.exp_segsum(x), F.scaled_masked_softmax(x, torch.zeros(4, 6) > 0), F.silu_mul(x, x)
        *_, logits = torch.ops.gradus.fused_linear_online_max_sum(weight, weight, torch.arange(16), 0, 16, True)
    assert out.dtype is dtype and logits.dtype is dtype
    assert torch.equal(out, F.nsa_selected_attention(q.to(dtype), k.to(dtype), v.to(dtype), indices, **options))
    assert [t.dtype for t in kept] == [torch.float32] * 4  # as torch.softmax and torch.exp on CPUs
    out.sum().backward()
    kept[0].sum().backward()
    assert q.grad.dtype is torch.float32 and q.grad.abs().sum() > 0 and x.grad.dtype is torch.float32
    with torch.autocast("cpu", dtype):
        assert F.swiglu(x.to(dtype)).dtype is dtype


def test_without_autocast_attention_refuses_f32():
    q, k, v, indices = attention(3)
    with pytest.raises(RuntimeError, match="query: dtype f32, expected f16 or bf16"):
        F.nsa_selected_attention(q.float(), k.float(), v.float(), indices, scale=1.0, **BLOCKS)
