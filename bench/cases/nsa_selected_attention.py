import torch
import torch.nn.functional as F

from .case import Case, Operator, random, some_rows, targets

# T, N1, N2, D, Dv, size, count
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
}
