"""What is compared: every operator, its shapes, and all ways in which PyTorch can compute the same.

A family adds a builder and its operators to OPERATORS; nothing else knows them.
"""

from dataclasses import dataclass, field
from typing import Callable

import torch
import torch.nn.functional as F


@dataclass
class Case:
    """One operator at one shape. Every callable computes into memory that is warm after its first call."""

    ours: Callable[[], None]
    result: list[torch.Tensor]  # what ours writes
    # Way -> a function that returns the same tensors. Those in compiled are given to torch.compile first.
    eager: dict[str, Callable[[], list[torch.Tensor]]]
    compiled: dict[str, Callable[[Callable], Callable[[], list[torch.Tensor]]]]
    # The right answer in float64 for some part of the result, and that part of it.
    expected: Callable[[], list[torch.Tensor]]
    part: Callable[[torch.Tensor], torch.Tensor]


@dataclass
class Operator:
    build: Callable[..., Case]  # (library, shape, dtype)
    shapes: list[tuple[int, ...]]
    target: dict[torch.dtype, float]  # times faster than the best peer
    dtypes: list[torch.dtype] = field(default_factory=lambda: [torch.bfloat16, torch.float16, torch.float32])


def random(shape, dtype):
    return torch.randn(shape, dtype=torch.float32).to(dtype)


def targets(bf16, other):
    return {torch.bfloat16: bf16, torch.float16: other, torch.float32: other}


# ---- swi_glu

SWI_GLU_SHAPES = [(4096, 1, 22016), (4096, 1, 7168), (8192, 1, 7808), (2048, 28672)]


def halves(x):
    n = x.shape[-1] // 2
    return x[..., :n], x[..., n:]


def some_rows(x):
    return x[:: max(1, x.shape[0] // 64)]


def silu_times(x):
    a, b = halves(x)
    return F.silu(a) * b


def swi_glu(library, shape, dtype):
    x = random(shape, dtype)
    a, b = halves(x)
    y, y_peer = torch.zeros_like(a), torch.zeros_like(a)

    def in_place():
        torch.mul(F.silu(a), b, out=y_peer)
        return [y_peer]

    def compiled(compile):
        function = compile(silu_times)
        return lambda: [function(x)]

    def expected():
        return [silu_times(some_rows(x).double())]

    return Case(ours=library.prepare("SwiGlu", x=x, dim=-1, out=y), result=[y],
                eager={"eager silu": lambda: [silu_times(x)], "eager silu, out=": in_place},
                compiled={"compiled": compiled}, expected=expected, part=some_rows)


def swi_glu_grad_formula(g, x):
    a, b = halves(x)
    s = torch.sigmoid(a)
    return torch.cat([g * b * (s * (1 + a * (1 - s))), g * a * s], dim=-1)


def swi_glu_grad(library, shape, dtype):
    x = random(shape, dtype)
    a, b = halves(x)
    g = random(a.shape, dtype)
    out, out_peer = torch.zeros_like(x), torch.zeros_like(x)
    leaf = x.detach().requires_grad_()

    def fused():
        out_a, out_b = halves(out_peer)
        torch.ops.aten.silu_backward.grad_input(g * b, a, grad_input=out_a)
        torch.mul(F.silu(a), g, out=out_b)
        return [out_peer]

    def autograd(function):
        y = function(leaf)
        return lambda: list(torch.autograd.grad(y, leaf, g, retain_graph=True))

    def compiled_formula(compile):
        function = compile(swi_glu_grad_formula)
        return lambda: [function(g, x)]

    def expected():
        rows = some_rows(x).double().requires_grad_()
        return list(torch.autograd.grad(silu_times(rows), rows, some_rows(g).double()))

    return Case(ours=library.prepare("SwiGluGrad", yGrad=g, x=x, dim=-1, out=out), result=[out],
                eager={"eager formula": lambda: [swi_glu_grad_formula(g, x)], "eager silu_backward, out=": fused,
                       "autograd": autograd(silu_times)},
                compiled={"compiled formula": compiled_formula,
                          "compiled autograd": lambda compile: autograd(compile(silu_times))},
                expected=expected, part=some_rows)


# ---- nsa_selected_attention: T, N1, N2, D, Dv, size, count

NSA_SHAPES = [(4096, 16, 1, 192, 128, 64, 16), (2048, 64, 4, 192, 128, 64, 16), (4096, 32, 8, 128, 128, 64, 16)]
NSA_ROWS = 128  # gathered at a time: all rows at once would take 17 GB


def nsa_inputs(shape, dtype):
    rows, heads, key_heads, depth, value_depth, size, count = shape
    query, key = random((rows, heads, depth), dtype), random((rows, key_heads, depth), dtype)
    value, grad = random((rows, key_heads, value_depth), dtype), random((rows, heads, value_depth), dtype)
    blocks = torch.rand(rows, key_heads, rows // size).topk(count).indices.to(torch.int32)
    return query, key, value, grad, blocks


def nsa_gather(query, key, value, blocks, size, scale):
    """Attention of some rows over copies of the keys and values that each of them chose."""
    rows, key_heads, _ = blocks.shape
    chosen = (blocks.long()[..., None] * size + torch.arange(size)).flatten(2)
    heads = torch.arange(key_heads)[:, None]
    k, v = key[chosen, heads], value[chosen, heads]  # [rows, N2, count * size, D]
    q = query.view(rows, key_heads, -1, query.shape[-1])
    return ((q @ k.mT * scale).softmax(-1) @ v).reshape(rows, query.shape[1], -1)


def nsa_mask(blocks, size, group):
    """What a dense attention has to be told: [N1, T, T]."""
    rows, key_heads, _ = blocks.shape
    chosen = torch.zeros(rows, key_heads, rows // size, dtype=torch.bool).scatter_(2, blocks.long(), True)
    return chosen.repeat_interleave(size, 2).transpose(0, 1).repeat_interleave(group, 0)


def nsa_dense(query, key, value, mask, scale):
    group = query.shape[1] // key.shape[1]
    k, v = key.transpose(0, 1).repeat_interleave(group, 0), value.transpose(0, 1).repeat_interleave(group, 0)
    out = F.scaled_dot_product_attention(query.transpose(0, 1)[None], k[None], v[None], attn_mask=mask, scale=scale)
    return out[0].transpose(0, 1)


def nsa_forward(library, shape, query, key, value, blocks, scale):
    rows, heads, _, _, value_depth, size, count = shape
    maximum, total = torch.zeros(rows, heads, 8), torch.zeros(rows, heads, 8)
    out = torch.zeros(rows, heads, value_depth, dtype=query.dtype)
    call = library.prepare("NsaSelectedAttention", query=query, key=key, value=value, topkIndices=blocks, scaleValue=scale,
                           headNum=heads, inputLayout="TND", sparseMode=0, selectedBlockSize=size,
                           selectedBlockCount=count, softmaxMaxOut=maximum, softmaxSumOut=total, attentionOut=out)
    return call, maximum, total, out


def nsa(library, shape, dtype):
    query, key, value, _, blocks = nsa_inputs(shape, dtype)
    size, scale = shape[5], shape[3] ** -0.5
    ours, _, _, out = nsa_forward(library, shape, query, key, value, blocks, scale)
    mask = nsa_mask(blocks, size, shape[1] // shape[2])

    def gather():
        return [torch.cat([nsa_gather(q, key, value, b, size, scale)
                           for q, b in zip(query.split(NSA_ROWS), blocks.split(NSA_ROWS))])]

    def expected():
        return [nsa_gather(some_rows(query).double(), key.double(), value.double(), some_rows(blocks), size, scale)]

    return Case(ours=ours, result=[out],
                eager={"gather": gather, "dense with mask": lambda: [nsa_dense(query, key, value, mask, scale)]},
                compiled={}, expected=expected, part=some_rows)


def nsa_grad(library, shape, dtype):
    query, key, value, grad, blocks = nsa_inputs(shape, dtype)
    heads, size, count, scale = shape[1], shape[5], shape[6], shape[3] ** -0.5
    forward, maximum, total, out = nsa_forward(library, shape, query, key, value, blocks, scale)
    forward()
    dq, dk, dv = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    ours = library.prepare("NsaSelectedAttentionGrad", query=query, key=key, value=value, attentionOut=out,
                           attentionOutGrad=grad, softmaxMax=maximum, softmaxSum=total, topkIndices=blocks, scaleValue=scale,
                           selectedBlockSize=size, selectedBlockCount=count, headNum=heads, inputLayout="TND", sparseMode=0,
                           dqOut=dq, dkOut=dk, dvOut=dv)
    leaves = [x.detach().requires_grad_() for x in (query, key, value)]
    dense = nsa_dense(*leaves, nsa_mask(blocks, size, heads // shape[2]), scale)

    def gather():
        # some rows at a time, forward and backward: what autograd would keep of all rows does not fit
        parts, key_sum, value_sum = [], torch.zeros_like(key, dtype=torch.float32), torch.zeros_like(value, dtype=torch.float32)
        for q, b, g in zip(query.split(NSA_ROWS), blocks.split(NSA_ROWS), grad.split(NSA_ROWS)):
            q = q.detach().requires_grad_()
            part = torch.autograd.grad(nsa_gather(q, leaves[1], leaves[2], b, size, scale), (q, *leaves[1:]), g)
            parts.append(part[0])
            key_sum += part[1]
            value_sum += part[2]
        return [torch.cat(parts)]

    def expected():
        q = some_rows(query).double().requires_grad_()
        y = nsa_gather(q, key.double(), value.double(), some_rows(blocks), size, scale)
        return list(torch.autograd.grad(y, q, some_rows(grad).double()))

    return Case(ours=ours, result=[dq],  # of the three, the one that some rows tell all about
                eager={"gather": gather,
                       "dense with mask": lambda: [torch.autograd.grad(dense, leaves, grad, retain_graph=True)[0]]},
                compiled={}, expected=expected, part=some_rows)


OPERATORS = {
    "NsaSelectedAttention": Operator(nsa, NSA_SHAPES, targets(4, 4), [torch.bfloat16, torch.float16]),
    "NsaSelectedAttentionGrad": Operator(nsa_grad, NSA_SHAPES, targets(4, 4), [torch.bfloat16, torch.float16]),
    "SwiGlu": Operator(swi_glu, SWI_GLU_SHAPES, targets(2, 1.3)),
    "SwiGluGrad": Operator(swi_glu_grad, SWI_GLU_SHAPES, targets(4, 1.6)),
}
