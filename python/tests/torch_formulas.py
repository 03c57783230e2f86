"""The formulas in f64, independent of the library, and how far from them a result may be (docs/numerics.md)."""

import math

import torch
from torch import Tensor

EPS = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}  # half a unit, relative
_STEP = {torch.float32: 2.0**-149, torch.float16: 2.0**-24, torch.bfloat16: 2.0**-133}  # of the subnormals


def swiglu(x: Tensor, dim: int = -1) -> Tensor:
    a, b = x.chunk(2, dim)
    return a * torch.sigmoid(a) * b


def segments(a: Tensor) -> Tensor:
    """[..., i, j]: a[j+1] + ... + a[i], summed directly; -inf for j > i."""
    n = a.shape[-1]
    rows = []
    for i in range(n):
        sums = [a[..., j + 1 : i + 1].sum(-1) for j in range(i + 1)]
        rows.append(torch.stack(sums + [torch.full_like(a[..., 0], -math.inf)] * (n - 1 - i), -1))
    return torch.stack(rows, -2)


def exp_segsum(a: Tensor) -> Tensor:
    return torch.exp(segments(a))


def scaled_masked_softmax(x: Tensor, mask: Tensor, scale: float) -> Tensor:
    return torch.softmax((x * scale).masked_fill(mask, -10000.0), -1)


def nsa_weights(
    indices: Tensor, rows_q: int, rows_kv: int, size: int, causal: bool, ends_q: list[int], ends_kv: list[int]
) -> Tensor:
    """[T1, N2, T2]: how often query row t selects and sees key row j."""
    ends_q, ends_kv = ends_q or [rows_q], ends_kv or [rows_kv]
    weights = torch.zeros(rows_q, indices.shape[1], rows_kv, dtype=torch.float64)
    begin_q = begin_kv = 0
    for end_q, end_kv in zip(ends_q, ends_kv):
        for t in range(begin_q, end_q):
            for head in range(indices.shape[1]):
                for block in indices[t, head].tolist():
                    for j in range(block * size, min((block + 1) * size, end_kv - begin_kv)):
                        if block >= 0 and not (causal and j > t - begin_q):
                            weights[t, head, begin_kv + j] += 1
        begin_q, begin_kv = end_q, end_kv
    return weights


def nsa(q: Tensor, k: Tensor, v: Tensor, weights: Tensor, scale: float) -> Tensor:
    return torch.einsum("thj,jhd->thd", nsa_probabilities(q, k, weights, scale), _heads(v, q))


def nsa_probabilities(q: Tensor, k: Tensor, weights: Tensor, scale: float) -> Tensor:
    """[T1, N1, T2], a block that is listed twice counted twice; 0 in a row that sees nothing."""
    seen = weights.repeat_interleave(q.shape[1] // k.shape[1], 1)
    s = (scale * torch.einsum("thd,jhd->thj", q, _heads(k, q))).masked_fill(seen == 0, -math.inf)
    largest = s.amax(-1, keepdim=True).detach()
    e = seen * torch.exp(s - largest.masked_fill(largest == -math.inf, 0))
    total = e.sum(-1, keepdim=True)
    return e / total.masked_fill(total == 0, 1)


def _heads(t: Tensor, q: Tensor) -> Tensor:
    return t.repeat_interleave(q.shape[1] // t.shape[1], 1)


def c(n: int) -> float:
    """A sum of n terms, relative to the sum of their absolute values."""
    return (8 + math.log2(max(n, 2))) * 2.0**-24


def assert_near(got: Tensor, exact: Tensor, error: Tensor | float, units: float = 1) -> None:
    """error: what may be off before the last rounding; units: halves of a unit of the stored type."""
    bound = error + units * EPS[got.dtype] * exact.abs() + _STEP[got.dtype]
    off = (got.double() - exact).abs() - bound
    assert got.shape == exact.shape and not got.isnan().any()
    assert (off <= 0).all(), f"{int((off > 0).sum())} of {off.numel()} elements, worst {off.max():.3g} above its bound"
