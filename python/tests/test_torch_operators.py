"""torch.ops.gradus.*: PyTorch's own checks of an operator, layouts, copies, meta tensors, errors."""

import contextlib
import os

import gradus.torch as F
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

OPS = torch.ops.gradus
BF16 = torch.bfloat16


def operands() -> dict[str, tuple]:
    """Arguments of every operator, the tensors contiguous."""
    torch.manual_seed(0)
    x, mask, g = torch.randn(3, 4, 6), torch.rand(2, 1, 4, 5) < 0.3, torch.randn(2, 3, 4, 5)
    y = OPS.scaled_masked_softmax(torch.randn(2, 3, 4, 5), mask, 0.5)
    segments = OPS.exp_segsum(-torch.rand(2, 3, 5))
    q, k, v = (torch.randn(32, n, d).to(BF16) for n, d in ((4, 8), (2, 8), (2, 6)))
    indices = torch.randint(0, 2, (32, 2, 2), dtype=torch.int32)
    attributes = (0.3, 16, 2, True, [12, 32], [16, 32])
    out, largest, total = OPS.nsa_selected_attention(q, k, v, indices, *attributes)
    h, weight, target = torch.randn(9, 8).to(BF16), torch.randn(16, 8).to(BF16), torch.randint(0, 20, (9,))
    top, sums, predicted, bits, masked, logits = OPS.fused_linear_online_max_sum(h, weight, target, 2, 18, True)
    return {
        "swi_glu": (x, -1),
        "swi_glu_grad": (torch.randn(3, 2, 6), x, 1),
        "exp_segsum": (-torch.rand(2, 3, 5),),
        "exp_segsum_backward": (torch.randn(2, 3, 5, 5), segments),
        "scaled_masked_softmax": (torch.randn(2, 3, 4, 5), mask, 0.5),
        "scaled_masked_softmax_backward": (g, y, mask, 0.5),
        "nsa_selected_attention": (q, k, v, indices, *attributes),
        "nsa_selected_attention_grad": (torch.randn_like(out), q, k, v, None, largest, total, indices, *attributes),
        "fused_linear_online_max_sum": (h, weight, target, 2, 18, True),
        "fused_cross_entropy_loss_with_max_sum": (top, sums, predicted, logits),
        "fused_linear_cross_entropy_loss_grad": (torch.rand(9), h, weight, bits, masked, top, sums, None),
    }


def transposed(t: Tensor) -> Tensor:
    """The same values, the first dim innermost in memory, and nothing dense."""
    wide = t.movedim(0, -1).repeat_interleave(2, -1)
    return wide[..., ::2].movedim(-1, 0)


def expanded(t: Tensor) -> Tensor:
    return t[:1].expand(t.shape)


LAYOUTS = {"contiguous": lambda t: t, "transposed": transposed, "expanded": expanded}
NAMES = list(operands())


def arranged(name: str, layout: str) -> tuple:
    if layout == "empty":
        return empty(name)
    return tuple(LAYOUTS[layout](a) if isinstance(a, Tensor) else a for a in operands()[name])


def empty(name: str) -> tuple:
    """No rows: every tensor but the weights and the mask loses its first dim; no packed sequences."""
    kept = {"fused_linear_online_max_sum": [1], "fused_linear_cross_entropy_loss_grad": [2]}.get(name, [])
    args = list(operands()[name])
    for i, a in enumerate(args):
        args[i] = a[:0] if isinstance(a, Tensor) and i not in kept else None if isinstance(a, list) else a
    return tuple(args)


def results(result) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


@pytest.mark.parametrize("layout", [*LAYOUTS, "empty"])
@pytest.mark.parametrize("name", NAMES)
def test_opcheck(name, layout):
    op, args = getattr(OPS, name).default, arranged(name, layout)
    has_gradient = name in ("swi_glu", "exp_segsum", "scaled_masked_softmax", "nsa_selected_attention")
    for arg in args if has_gradient else ():
        if isinstance(arg, Tensor) and arg.is_floating_point():
            arg.requires_grad_()
    torch.library.opcheck(op, args)


@pytest.mark.parametrize("layout", ["transposed", "expanded", "empty"])
@pytest.mark.parametrize("name", NAMES)
def test_layouts_change_no_bit(name, layout):
    op, args = getattr(OPS, name), arranged(name, layout)
    dense = tuple(a.contiguous() if isinstance(a, Tensor) else a for a in args)
    for got, want in zip(results(op(*args)), results(op(*dense))):
        assert torch.equal(got, want) and got.is_contiguous()


def test_a_gradient_of_nothing_is_zero():
    dx, dweight = OPS.fused_linear_cross_entropy_loss_grad(*empty("fused_linear_cross_entropy_loss_grad"))
    assert dx.shape == (0, 8) and torch.equal(dweight, torch.zeros(16, 8, dtype=BF16))
    assert F.swiglu(torch.ones(0, 8)).shape == (0, 4)
    nothing = F.silu_mul(torch.ones(4, 0), torch.ones(4, 0))
    assert nothing.shape == (4, 0) and nothing.stride() == torch.ones(4, 0).stride()


@pytest.mark.parametrize("name", NAMES)
def test_meta_tensors(name):
    op, args = getattr(OPS, name), operands()[name]
    meta = op(*(a.to("meta") if isinstance(a, Tensor) else a for a in args))
    for got, want in zip(results(meta), results(op(*args))):
        assert got.device.type == "meta"
        assert (got.shape, got.dtype, got.stride()) == (want.shape, want.dtype, want.stride())


def test_results_left_out_have_no_elements():
    h, weight, target, start, end, _ = operands()["fused_linear_online_max_sum"]
    max, sum, predicted, *_, logits = OPS.fused_linear_online_max_sum(h, weight, target, start, end, False)
    assert logits.shape == (0,)
    loss, softmax = OPS.fused_cross_entropy_loss_with_max_sum(max, sum, predicted, None)
    assert loss.shape == (9,) and softmax.shape == (0,)


class Seen(TorchDispatchMode):
    """The operators that ran."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


def test_nothing_is_copied_on_the_way():
    x, mask = torch.randn(8, 12, requires_grad=True), torch.rand(5) < 0.5
    scores, column = torch.randn(2, 3, 5, 4, requires_grad=True), torch.randn(6, 1)
    views = "t alias unsqueeze expand transpose.int as_strided split.Tensor slice.Tensor detach".split()
    with Seen() as seen:
        torch.autograd.grad(F.swiglu(x.t(), 0), x, column.expand(6, 8))
        F.silu_mul(*x.detach().chunk(2, -1))
        torch.autograd.grad(F.scaled_masked_softmax(scores.mT, mask), scores, column[:4].expand(2, 3, 4, 5))
    ran = [name for name in seen.names if name not in {f"aten::{view}" for view in views}]
    assert ran == [f"gradus::{name}" for name in ("swi_glu", "swi_glu_grad", "swi_glu", "scaled_masked_softmax",
                                                  "scaled_masked_softmax_backward")]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: F.swiglu(torch.ones(2, 3)), r"gradus \(161002\): aclnnSwiGlu: x: "),
        (lambda: F.swiglu(torch.ones(2, 4), 2), r"gradus \(161002\): aclnnSwiGlu: dim: 2, expected -2 to 1"),
        (lambda: F.swiglu(torch.ones(2, 4).long()), r"x: dtype i(nt)?64, expected f32, f16 or bf16"),
        (lambda: F.swiglu(torch.ones(2, 4).double()), r"x: dtype f64"),
        (lambda: F.swiglu(torch.ones(())), r"gradus \(161002\): aclnnSwiGlu: "),
        (lambda: F.swiglu(torch.ones(2, 4).to(torch.float8_e4m3fnuz)), r"gradus \(161002\): aclnnSwiGlu: x: dtype"),
        (lambda: OPS.exp_segsum(torch.ones(())), r"gradus \(161002\): aclnnExpSegsum: self: "),
        (lambda: OPS.exp_segsum_backward(torch.ones(()), torch.ones(2)), r"aclnnExpSegsumBackward: gradOutput: "),
        (lambda: OPS.swi_glu_grad(torch.ones(2, 3), torch.ones(2, 4), -1), r"aclnnSwiGluGrad: yGrad: "),
        (lambda: F.scaled_masked_softmax(torch.ones(1, 1, 2, 2), torch.zeros(2, 2)), r"mask: dtype f32, expected bool"),
        (lambda: F.scaled_masked_softmax(torch.ones(1, 1, 1, 2, 2), torch.zeros(2, 2) > 0),
         r"aclnnScaledMaskedSoftmax: x: "),
        (lambda: OPS.nsa_selected_attention(*[torch.ones(2)] * 4, 1.0, 16, 1, True, None, None),
         r"gradus \(161002\): aclnnNsaSelectedAttention: "),
        (lambda: F.nsa_selected_attention(*[torch.ones(16, 1, 8).half()] * 3, torch.zeros(16, 1, 1), scale=1.0,
                                          block_size=17, block_count=1), r"selectedBlockSize: 17, expected"),
        (lambda: OPS.fused_linear_online_max_sum(*[torch.ones(())] * 3, 0, 1, False),
         r"gradus \(161002\): aclnnFusedLinearOnlineMaxSum: input: "),
        (lambda: OPS.fused_linear_cross_entropy_loss_grad(*operands()["fused_linear_cross_entropy_loss_grad"][:5],
                                                          None, None, None), r"gradus \(161001\): "),
    ],
)
def test_errors_are_the_library_s_own_words(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


def test_copy_on_write_tensors_stay_shared():
    x = torch.randn(4, 8)
    lazy = torch._lazy_clone(x)
    F.swiglu(lazy)
    assert torch._C._is_cow_tensor(lazy)


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_handles_are_given_back():
    """A handle takes about 400 bytes, and a call, refused or not, two or more of them."""
    x, odd = torch.ones(2, 4), torch.ones(2, 3)

    def calls(n):
        for _ in range(n):
            OPS.swi_glu(x, -1)
            with contextlib.suppress(RuntimeError):
                OPS.swi_glu(odd, -1)

    calls(500)
    before = resident()
    calls(10000)
    assert resident() - before < 4 << 20
