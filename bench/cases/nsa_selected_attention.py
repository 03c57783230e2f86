import itertools

import torch
import torch.nn.functional as F

from .case import HALVES, Case, Operator, random, some_rows, targets

# T, N1, N2, D, Dv, size, count, and the lengths of batches if there are several
NSA_SHAPES = [(4096, 16, 1, 192, 128, 64, 16), (2048, 64, 4, 192, 128, 64, 16), (4096, 32, 8, 128, 128, 64, 16),
              (5120, 16, 1, 192, 128, 32, 32, 1024, 1024, 1024, 2048)]
NSA_ROWS = 128  # gathered at a time: all rows at once would take 17 GB


class Problem:
    """Inputs of both operators, and what PyTorch has to be told about them. A batch begins at a multiple of the size."""

    def __init__(self, shape, dtype):
        rows, heads, key_heads, depth, value_depth, self.size, self.count = shape[:7]
        lengths = shape[7:] or (rows,)
        self.heads, self.scale, self.ends = heads, depth**-0.5, list(itertools.accumulate(lengths))
        self.query, self.key = random((rows, heads, depth), dtype), random((rows, key_heads, depth), dtype)
        self.value, self.grad = random((rows, key_heads, value_depth), dtype), random((rows, heads, value_depth), dtype)
        chosen = [torch.rand(n, key_heads, n // self.size).topk(self.count).indices for n in lengths]
        self.topk = torch.cat(chosen).to(torch.int32)
        self.spans = [slice(end - n, end) for n, end in zip(lengths, self.ends)]
        self.blocks = torch.cat([c + span.start // self.size for c, span in zip(chosen, self.spans)])  # of all batches

    def masks(self, dtype):
        """What a dense attention has to be told, for each batch, to be added to its scores: [N2, 1, n, n]."""
        for span in self.spans:
            n = span.stop - span.start
            hidden = torch.full((n, self.key.shape[1], n // self.size), float("-inf"), dtype=dtype)
            hidden.scatter_(2, self.topk[span].long(), 0)
            yield hidden.repeat_interleave(self.size, 2).transpose(0, 1)[:, None].contiguous()

    def gather(self, query, key, value, blocks):
        """Attention of some rows over copies of the keys and values that each of them chose."""
        rows, key_heads, _ = blocks.shape
        chosen = (blocks[..., None] * self.size + torch.arange(self.size)).flatten(2)
        heads = torch.arange(key_heads)[:, None]
        k, v = key[chosen, heads], value[chosen, heads]  # [rows, N2, count * size, D]
        q = query.view(rows, key_heads, -1, query.shape[-1])
        return ((q @ k.mT * self.scale).softmax(-1) @ v).reshape(rows, query.shape[1], -1)

    def dense(self, query, key, value, masks):
        parts = []
        for span, mask in zip(self.spans, masks):
            q = query[span].unflatten(1, (key.shape[1], -1)).permute(1, 2, 0, 3)  # [N2, G, n, D]
            k, v = (x[span].transpose(0, 1)[:, None].expand(*q.shape[:2], -1, -1) for x in (key, value))
            part = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.scale)
            parts.append(part.permute(2, 0, 1, 3).flatten(1, 2))
        return torch.cat(parts)

    def forward(self, library):
        rows, heads, _ = self.query.shape
        maximum, total = torch.zeros(rows, heads, 8), torch.zeros(rows, heads, 8)
        out = torch.zeros(rows, heads, self.value.shape[2], dtype=self.query.dtype)
        call = library.prepare("NsaSelectedAttention", query=self.query, key=self.key, value=self.value,
                               softmaxMaxOut=maximum, softmaxSumOut=total, attentionOut=out, **self.options())
        return call, maximum, total, out

    def options(self):
        return {"topkIndices": self.topk, "actualSeqQLenOptional": self.ends, "actualSeqKvLenOptional": self.ends,
                "scaleValue": self.scale, "headNum": self.heads, "inputLayout": "TND", "sparseMode": 0,
                "selectedBlockSize": self.size, "selectedBlockCount": self.count}


# Every way once as it is and once in f32: where a CPU has no products of 16-bit numbers, PyTorch is faster with that.
def nsa(library, shape, dtype):
    p = Problem(shape, dtype)
    ours, _, _, out = p.forward(library)

    def gather(wide):
        def way():
            key, value = (x.to(wide) for x in (p.key, p.value))
            return [torch.cat([p.gather(q.to(wide), key, value, b).to(dtype)
                               for q, b in zip(p.query.split(NSA_ROWS), p.blocks.split(NSA_ROWS))])]
        return way

    def dense(wide):
        masks = list(p.masks(wide))
        return lambda: [p.dense(p.query.to(wide), p.key.to(wide), p.value.to(wide), masks).to(dtype)]

    def expected():
        return [p.gather(some_rows(p.query).double(), p.key.double(), p.value.double(), some_rows(p.blocks))]

    return Case(ours=ours, result=[out],
                eager={"dense with mask in f32": dense(torch.float32), "gather in f32": gather(torch.float32),
                       "dense with mask": dense(dtype), "gather": gather(dtype)},
                compiled={}, expected=expected, part=some_rows)


def nsa_grad(library, shape, dtype):
    p = Problem(shape, dtype)
    forward, maximum, total, out = p.forward(library)
    forward()
    dq, dk, dv = torch.zeros_like(p.query), torch.zeros_like(p.key), torch.zeros_like(p.value)
    ours = library.prepare("NsaSelectedAttentionGrad", query=p.query, key=p.key, value=p.value, attentionOut=out,
                           attentionOutGrad=p.grad, softmaxMax=maximum, softmaxSum=total, dqOut=dq, dkOut=dk, dvOut=dv,
                           **p.options())

    def dense(wide):
        # the forward pass is not measured: only its gradient is
        leaves = [x.detach().to(wide).requires_grad_() for x in (p.query, p.key, p.value)]
        y = p.dense(*leaves, p.masks(wide))
        return lambda: [x.to(dtype) for x in torch.autograd.grad(y, leaves, p.grad.to(wide), retain_graph=True)[:1]]

    def gather(wide):
        # some rows at a time, forward and backward: what autograd would keep of all rows does not fit
        def way():
            leaves = [x.detach().to(wide).requires_grad_() for x in (p.key, p.value)]
            parts, sums = [], [torch.zeros_like(x, dtype=torch.float32) for x in leaves]
            for q, b, g in zip(p.query.split(NSA_ROWS), p.blocks.split(NSA_ROWS), p.grad.split(NSA_ROWS)):
                q = q.detach().to(wide).requires_grad_()
                part = torch.autograd.grad(p.gather(q, *leaves, b), (q, *leaves), g.to(wide))
                parts.append(part[0].to(dtype))
                for x, y in zip(sums, part[1:]):
                    x += y
            return [torch.cat(parts)]
        return way

    def expected():
        q = some_rows(p.query).double().requires_grad_()
        y = p.gather(q, p.key.double(), p.value.double(), some_rows(p.blocks))
        return list(torch.autograd.grad(y, q, some_rows(p.grad).double()))

    return Case(ours=ours, result=[dq],  # of the three, the one that some rows tell all about
                eager={"dense with mask in f32": dense(torch.float32), "gather in f32": gather(torch.float32),
                       "dense with mask": dense(dtype), "gather": gather(dtype)},
                compiled={}, expected=expected, part=some_rows)


OPERATORS = {
    "NsaSelectedAttention": Operator(nsa, NSA_SHAPES, targets(4, 4), HALVES),
    "NsaSelectedAttentionGrad": Operator(nsa_grad, NSA_SHAPES, targets(4, 4), HALVES),
}
