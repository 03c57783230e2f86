"""torch_npu's nine names: schemas, results and gradients against f64 formulas, the device's limits."""

import npu_device  # noqa: F401  first
import gradus
import pytest
import torch
import torch_formulas as exact
import torch_npu
from torch_formulas import EPS, assert_near, c

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
HALVES = DTYPES[1:]

# As the users' documents have them.
SCHEMAS = """
npu_swiglu(Tensor self, int dim=-1) -> Tensor
npu_swiglu_backward(Tensor grad_output, Tensor self, int dim=-1) -> Tensor
npu_scaled_masked_softmax(Tensor x, Tensor mask, Scalar scale=1, bool fixed_triu_mask=False) -> Tensor
npu_scaled_masked_softmax_backward(Tensor y_grad, Tensor y, Tensor mask, Scalar scale, bool fixed_triu_mask) -> Tensor
npu_nsa_select_attention(Tensor query, Tensor key, Tensor value, Tensor topk_indices, float scale_value, int head_num, int select_block_size, int select_block_count, *, Tensor? atten_mask=None, int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None) -> (Tensor, Tensor, Tensor)
npu_nsa_select_attention_grad(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor attention_out, Tensor softmax_max, Tensor softmax_sum, Tensor topk_indices, float scale_value, int head_num, int select_block_size, int select_block_count, *, Tensor? atten_mask=None, int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None) -> (Tensor, Tensor, Tensor)
npu_fused_linear_online_max_sum(Tensor input, Tensor weight, Tensor target, int vocab_start_index, int vocab_end_index, bool return_logits=False) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)
npu_fused_cross_entropy_loss_with_max_sum(Tensor logits_max, Tensor sum_exp_logits, Tensor predicted_logits, *, float? label_smoothing=0.0, Tensor? input=None, Tensor? weight=None, Tensor? vocab_parallel_logits=None) -> (Tensor, Tensor)
npu_fused_linear_cross_entropy_loss_with_max_sum_backward(Tensor grad, Tensor input, Tensor weight, Tensor target_mask, Tensor masked_target, float label_smoothing=0.0, Tensor? logits_max=None, Tensor? sum_exp_logits=None, Tensor? softmax=None) -> (Tensor, Tensor)
""".strip().splitlines()  # noqa: E501


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def leaf(*shape, dtype=torch.float32, std=1.0):
    return (torch.randn(shape) * std).to(dtype).npu().requires_grad_()


def f64(*tensors):
    return [t.detach().cpu().double().requires_grad_(t.is_floating_point()) for t in tensors]


def near(got, want, error, units=1):
    assert got.device.type == "npu"
    assert_near(got.detach().cpu(), want.detach(), error, units)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda s: s.partition("(")[0])
def test_schema(schema):
    name = schema.partition("(")[0]
    assert getattr(torch.ops.npu, name).default._schema == torch._C.parse_schema(f"npu::{schema}")
    assert getattr(torch_npu, name) is getattr(torch.ops.npu, name)


def test_there_are_nine_and_no_others():
    assert sorted(set(torch_npu.__all__) - {"npu"}) == sorted(s.partition("(")[0] for s in SCHEMAS)
    with pytest.raises(AttributeError, match="gradus.torch_npu, which has no 'fusion_attention'; it has npu, npu_"):
        torch_npu.fusion_attention
    from torch_npu import npu_fusion_attention  # as libraries do that may never call it

    with pytest.raises(NotImplementedError, match="gradus.torch_npu, which has no 'npu_fusion_attention'"):
        npu_fusion_attention(1, head_num=2)


def swiglu_terms(x, grad, dim):
    a, b = x.abs().chunk(2, dim)
    s = torch.sigmoid(x.chunk(2, dim)[0])
    return a * s * b, torch.cat((grad.abs() * b * (s + s * (1 - s) * a), grad.abs() * a * s), dim)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, dim", [((5, 34), -1), ((6, 3, 7), 0), ((2, 10, 5), 1), ((8,), 0)])
@pytest.mark.parametrize("turned", [False, True])
def test_swiglu(dtype, shape, dim, turned):
    x = leaf(*shape, dtype=dtype, std=3)
    view = x.T.contiguous().T if turned and x.dim() == 2 else x  # the device's operator takes contiguous ones only
    y = torch_npu.npu_swiglu(view, dim=dim)
    grad = torch.randn(y.shape).to(dtype)
    y.backward(grad.npu().expand_as(y))
    (r,) = f64(x)
    want = exact.swiglu(r, dim)
    want.backward(grad.double())
    forward, backward = swiglu_terms(r.detach(), grad.double(), dim)
    near(y, want, 8 * 2.0**-24 * forward, units=2)
    near(x.grad, r.grad, 8 * 2.0**-24 * backward, units=2)
    assert torch.equal(x.grad, torch.ops.npu.npu_swiglu_backward(grad.npu(), x.detach(), dim))


def test_swiglu_takes_expanded_gradients_and_defaults():
    x = leaf(6, 8)
    torch_npu.npu_swiglu(x).sum().backward()  # a gradient of ones with strides 0
    assert torch.equal(x.grad, torch_npu.npu_swiglu_backward(torch.ones(6, 4).npu(), x.detach()))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask_shape", [(2, 3, 9, 37), (1, 1, 9, 37), (2, 1, 9, 37)])
def test_scaled_masked_softmax(dtype, mask_shape):
    x, mask, scale = leaf(2, 3, 9, 37, dtype=dtype), torch.rand(mask_shape) < 0.3, 0.7
    check_softmax(x, mask, scale, lambda: torch_npu.npu_scaled_masked_softmax(x, mask.npu(), scale, False))


@pytest.mark.parametrize("shape", [(2, 3, 16, 16), (1, 2, 5, 9)])
def test_scaled_masked_softmax_with_a_fixed_mask(shape):
    x, mask = leaf(*shape), torch.rand(1, 1, *shape[2:]) < 0.5
    causal = torch.arange(shape[3])[None, None, None] > torch.arange(shape[2])[None, None, :, None]
    check_softmax(x, causal, 2, lambda: torch_npu.npu_scaled_masked_softmax(x, mask.npu(), 2, True))


def check_softmax(x, mask, scale, run):
    y = run()
    grad = torch.randn(y.shape).to(x.dtype)
    y.backward(grad.npu())
    (r,) = f64(x)
    want = exact.scaled_masked_softmax(r, mask, scale)
    want.backward(grad.double())
    w, g, n = want.detach(), grad.double(), x.shape[-1]
    relative = 2 * (2 + 4 * float(r.detach().abs().max()) * scale) * 2.0**-24 + c(n)
    near(y, w, relative * w)
    magnitude = scale * w * (g.abs() + (g * w).abs().sum(-1, keepdim=True))
    near(x.grad, r.grad, (2 * (EPS[x.dtype] + relative) + c(n)) * magnitude)
    assert (x.grad.cpu()[mask.expand_as(x)] == 0).all()


ROWS, KEYS, SIZE, COUNT, DEPTH = 160, 192, 16, 3, 128


def attention_case(dtype, ends):
    q, k, v = leaf(ROWS, 4, DEPTH, dtype=dtype), leaf(KEYS, 2, DEPTH, dtype=dtype), leaf(KEYS, 2, DEPTH, dtype=dtype)
    blocks = (KEYS if ends is None else 96) // SIZE
    return q, k, v, torch.randint(0, blocks, (ROWS, 2, COUNT), dtype=torch.int32)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("ends", [None, ([], []), ([64, 160], [96, 192])])
def test_nsa_select_attention(dtype, ends):
    q, k, v, indices = attention_case(dtype, ends if ends and ends[0] else None)
    scale, mask = DEPTH**-0.5, torch.ones(2, 2, dtype=torch.bool).npu()
    lengths = {} if ends is None else {"actual_seq_qlen": ends[0], "actual_seq_kvlen": ends[1]}
    out, largest, total = torch_npu.npu_nsa_select_attention(q, k, v, indices.npu(), scale, 4, SIZE, COUNT,
                                                             atten_mask=mask, **lengths)
    assert not largest.requires_grad and not total.requires_grad and largest.shape == (ROWS, 4, 8)
    grad = torch.randn(out.shape).to(dtype)
    out.backward(grad.npu())

    r = f64(q, k, v)
    weights = exact.nsa_weights(indices, ROWS, KEYS, SIZE, True, *(ends if ends and ends[0] else ([ROWS], [KEYS])))
    want = exact.nsa(*r, weights, scale)
    want.backward(grad.double())
    rq, rk, rv, g = r[0].detach(), *(exact._heads(t.detach(), q) for t in r[1:]), grad.double()
    p = exact.nsa_probabilities(rq, r[1].detach(), weights, scale)
    n = SIZE * COUNT
    largest = torch.einsum("thd,jhd->thj", rq.abs(), rk.abs()).amax(-1, keepdim=True)
    e = 2 * (c(DEPTH) + 2.0**-23) * scale * largest + c(n)
    rounded = EPS[dtype]
    near(out, want, torch.einsum("thj,jhd->thd", (e + rounded + c(n)) * p, rv.abs()))
    products, dp = torch.einsum("thd,jhd->thj", g.abs(), rv.abs()), torch.einsum("thd,jhd->thj", g, rv)
    # delta is Σ dO·O with the output as it was rounded: an error of half a unit of every |dO·O|, times P
    delta = rounded * (g.abs() * want.detach().abs()).sum(-1, keepdim=True)
    ds = p * (dp - (p * dp).sum(-1, keepdim=True))
    magnitude = p * (products + (p * products).sum(-1, keepdim=True))
    off = rounded * ds.abs() + (3 * e + 4 * c(n * ROWS)) * magnitude + p * (
        delta + torch.einsum("thj,thd,jhd->th", (e + rounded + c(n)) * p, g.abs(), rv.abs())[..., None])
    fold = lambda t: t.unflatten(1, (2, 2)).sum(2)  # noqa: E731  over the query heads of a key head
    near(q.grad, r[0].grad, scale * torch.einsum("thj,jhd->thd", off, rk.abs()))
    near(k.grad, r[1].grad, fold(scale * torch.einsum("thj,thd->jhd", off, rq.abs())))
    near(v.grad, r[2].grad, fold(torch.einsum("thj,thd->jhd", (e + rounded + c(n * ROWS)) * p, g.abs())))


def test_nsa_select_attention_without_a_mask_sees_all_and_says_what_its_gradient_is():
    q, k, v, indices = attention_case(torch.float16, None)
    with pytest.warns(UserWarning, match="without atten_mask: the forward sees all selected keys"):
        out, *_ = torch_npu.npu_nsa_select_attention(q, k, v, indices.npu(), 0.1, 4, SIZE, COUNT)
    r = f64(q, k, v)
    weights = exact.nsa_weights(indices, ROWS, KEYS, SIZE, False, [ROWS], [KEYS])
    p = exact.nsa_probabilities(r[0], r[1], weights, 0.1).detach()
    terms = torch.einsum("thj,jhd->thd", p, exact._heads(r[2].detach(), q).abs())
    near(out, exact.nsa(*r, weights, 0.1), (EPS[torch.float16] + 40 * c(DEPTH)) * terms)


def shards(x, weight, target, ranks):
    """The loss over vocabulary shards, as the pipeline of the documents has it, and what the backward wants."""
    size = weight.shape[0] // ranks
    bounds = [(r * size, (r + 1) * size) for r in range(ranks)]
    parts = [torch_npu.npu_fused_linear_online_max_sum(x, weight[a:b], target, a, b, True) for a, b in bounds]
    largest = torch.stack([p[0] for p in parts]).amax(0)
    total = sum(p[1] * torch.exp(p[0] - largest) for p in parts)
    owned = [(target >= a) & (target < b) for a, b in bounds]
    predicted = sum(torch.where(own, p[2] + p[0] - largest, 0) for own, p in zip(owned, parts))
    return parts, largest, total, predicted, size


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("integers", [torch.int32, torch.int64])
@pytest.mark.parametrize("given_softmax", [False, True])
def test_fused_linear_cross_entropy(dtype, ranks, integers, given_softmax):
    rows, width, words = 19, 48, 256
    x, weight = leaf(rows, width, dtype=dtype, std=0.5).detach(), leaf(words, width, dtype=dtype, std=0.5).detach()
    target = torch.randint(0, words, (rows,), dtype=integers)
    parts, largest, total, predicted, size = shards(x, weight, target.npu(), ranks)
    rx, rw = f64(x, weight)
    logits = rx @ rw.T
    want = torch.nn.functional.cross_entropy(logits, target.long(), reduction="none")
    grad = torch.randn(rows)
    want.backward(grad.double())

    p = torch.softmax(logits.detach(), -1)
    m = c(width) * (rx.detach().abs() @ rw.detach().abs().T).amax(-1)  # of a logit
    relative = 2 * m + 4 * 2.0**-24 + 2 * c(words)                      # of a sum of exponentials
    hot = torch.nn.functional.one_hot(target.long(), words).double()
    dx = torch.zeros(rows, width)
    for rank, part in enumerate(parts):
        loss, softmax = torch_npu.npu_fused_cross_entropy_loss_with_max_sum(
            largest, total, predicted, vocab_parallel_logits=part[5] if given_softmax else None)
        near(loss, want, relative + m + 2 * 2.0**-24 * want.detach().abs())
        kinds = {"softmax": softmax} if given_softmax else {"logits_max": largest, "sum_exp_logits": total}
        here = slice(rank * size, (rank + 1) * size)
        dx_part, dw = torch_npu.npu_fused_linear_cross_entropy_loss_with_max_sum_backward(
            grad.npu(), x, weight[here], part[3], part[4], **kinds)
        # softmax from logits that were rounded to 16 bits is off by their half unit; g is rounded to 16 bits once
        logit_rounding = EPS[dtype] * logits.detach().abs().amax(-1) if given_softmax else torch.zeros(rows)
        g_off = (relative + 2 * m + 2 * logit_rounding)[:, None] * p + EPS[dtype] * (p + hot) + 2.0**-24
        g_off, terms = g_off * grad.double().abs()[:, None], (p + hot) * grad.double().abs()[:, None]
        near(dw, rw.grad[here], ((g_off + c(rows) * terms).T @ rx.detach().abs())[here])
        dx = dx + dx_part.cpu().double()
    # every shard rounds its own part
    bound = (g_off + (c(words) + ranks * EPS[dtype]) * terms) @ rw.detach().abs()
    assert ((dx - rx.grad).abs() <= bound).all()


def test_known_answers():
    ones, target = torch.ones(3, 4, dtype=torch.float16).npu(), torch.ones(3, dtype=torch.int64).npu()
    largest, total, predicted, mask, masked, logits = torch_npu.npu_fused_linear_online_max_sum(
        ones, torch.ones(5, 4, dtype=torch.float16).npu(), target, 0, 2)
    assert [t.tolist() for t in (largest, total, predicted, mask, masked)] == [[4] * 3, [5] * 3, [0] * 3, [0], [1] * 3]
    assert logits.numel() == 0
    half = torch.tensor([0.5, 1]).npu()
    loss, softmax = torch_npu.npu_fused_cross_entropy_loss_with_max_sum(
        half, half, half, vocab_parallel_logits=torch.tensor([[1, 0.5], [0.5, 1]]).npu())
    assert torch.allclose(loss.cpu(), torch.tensor([-1.193147, -1.0]), atol=1e-6, rtol=0)
    assert torch.allclose(softmax.cpu(), torch.tensor([[3.297443, 2], [0.606531, 1]]), atol=1e-6, rtol=0)


# The device's limits hold, and can be lifted.


def test_limits_hold():
    x, mask = torch.ones(1, 1, 1, 4097).npu(), torch.zeros(1, 1, 1, 4097, dtype=torch.bool).npu()
    with pytest.raises(RuntimeError, match="4097"):
        torch_npu.npu_scaled_masked_softmax(x, mask)
    with gradus.options(limits="off"):
        assert torch_npu.npu_scaled_masked_softmax(x, mask).sum().item() == pytest.approx(1)
    with pytest.raises(RuntimeError, match="empty|contiguous|limits"):
        torch_npu.npu_swiglu(torch.ones(0, 4).npu())
    assert torch.ops.gradus.swi_glu(torch.ones(0, 4), -1).shape == (0, 2)  # and for the CPU they were never on
    x, w = torch.ones(4, 8, dtype=torch.bfloat16).npu(), torch.ones(64, 8, dtype=torch.bfloat16).npu()
    target = torch.zeros(4, dtype=torch.int64).npu()
    largest, total, _, mask, masked, _ = torch_npu.npu_fused_linear_online_max_sum(x, w, target, 0, 64)
    with pytest.raises(RuntimeError, match="128"):
        torch_npu.npu_fused_linear_cross_entropy_loss_with_max_sum_backward(
            torch.ones(4).npu(), x, w, mask, masked, 0.0, largest, total)


def test_refusals():
    x = torch.ones(2, 4).npu()
    with pytest.raises(ValueError, match="label_smoothing: 0.1, expected 0"):
        torch_npu.npu_fused_cross_entropy_loss_with_max_sum(x[0], x[0], x[0], label_smoothing=0.1)
    with pytest.raises(RuntimeError, match="dim"):
        torch_npu.npu_swiglu(x, dim=2)
    with pytest.raises(RuntimeError, match="5|even"):
        torch_npu.npu_swiglu(torch.ones(2, 5).npu())
    with pytest.raises(NotImplementedError, match="npu::npu_swiglu"):  # as with torch_npu: there is no CPU kernel
        torch_npu.npu_swiglu(torch.ones(2, 4))
    q = torch.ones(16, 4, 128, dtype=torch.float16).npu()
    with pytest.raises(ValueError, match="head_num: 2, expected the heads of query, 4"):
        torch_npu.npu_nsa_select_attention(q, q, q, torch.zeros(16, 4, 1, dtype=torch.int32).npu(), 1.0, 2, 16, 1)


def test_double_backward_is_refused():
    x = leaf(4, 8)
    (first,) = torch.autograd.grad(torch_npu.npu_swiglu(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_shapes_without_data():
    x = torch.empty(6, 8, dtype=torch.bfloat16, device="meta")
    assert torch_npu.npu_swiglu(x).shape == (6, 4)
    assert torch_npu.npu_swiglu_backward(x[:, :4], x).shape == (6, 8)
    largest, _, _, mask, *_ = torch_npu.npu_fused_linear_online_max_sum(x, x, x[:, 0].long(), 0, 6)
    assert largest.shape == (6,) and mask.shape == (1,)
    s = torch.empty(1, 2, 3, 4, device="meta")
    assert torch_npu.npu_scaled_masked_softmax(s, s.bool(), 1, True).shape == s.shape


def test_inference_and_no_grad():
    x = leaf(4, 8)
    with torch.no_grad():
        assert not torch_npu.npu_swiglu(x).requires_grad
    with torch.inference_mode():
        assert torch_npu.npu_swiglu(x).shape == (4, 4)
