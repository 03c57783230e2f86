"""The five operators twice: as one writes them in PyTorch, and as Gradus has them. The models call them by these names."""

import torch
import torch.nn.functional as F
from torch import Tensor


class Torch:
    """PyTorch's best way to each of them on a CPU."""

    @staticmethod
    def swiglu(x: Tensor) -> Tensor:
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate) * up

    @staticmethod
    def scaled_masked_softmax(x: Tensor, mask: Tensor, scale: float) -> Tensor:
        return torch.softmax((x * scale).masked_fill(mask, -10000.0), dim=-1)

    @staticmethod
    def exp_segsum(a: Tensor) -> Tensor:
        size = a.shape[-1]
        ones = torch.ones(size, size, dtype=torch.bool, device=a.device)
        terms = a.unsqueeze(-1).expand(*a.shape, size).masked_fill(~ones.tril(-1), 0.0)
        return terms.cumsum(-2).exp().tril()

    @staticmethod
    def selected_attention(q: Tensor, k: Tensor, v: Tensor, blocks: Tensor, block_size: int, scale: float) -> Tensor:
        """Dense attention under a mask: at these lengths faster than gathering the blocks."""
        batch, length, heads, _ = q.shape
        chosen = torch.zeros(batch, length, k.shape[2], length // block_size, dtype=torch.bool, device=q.device)
        chosen.scatter_(-1, blocks, True)
        causal = torch.ones(length, length, dtype=torch.bool, device=q.device).tril()
        mask = chosen.repeat_interleave(block_size, -1) & causal[:, None, :]
        mask = mask.transpose(1, 2).repeat_interleave(heads // k.shape[2], 1)
        rows = (t.transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(*rows, mask, scale=scale, enable_gqa=True).transpose(1, 2)

    @staticmethod
    def head_loss(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
        logits = F.linear(x, weight)
        return F.cross_entropy(logits if logits.dtype == torch.float64 else logits.float(), target)


class Gradus:
    """The fused operators. `group` is set where the ranks of a torch.distributed group share the vocabulary."""

    def __init__(self, group: "torch.distributed.ProcessGroup | None" = None):
        import gradus.torch

        # PyTorch's threads wait for more work in a loop, which would hold up others on their cores.
        gradus.torch.use_torch_threads(True)
        self.group = group
        self.ops = gradus.torch
        self.swiglu = gradus.torch.swiglu
        self.scaled_masked_softmax = gradus.torch.scaled_masked_softmax
        self.exp_segsum = gradus.torch.exp_segsum

    def selected_attention(
        self, q: Tensor, k: Tensor, v: Tensor, blocks: Tensor, block_size: int, scale: float
    ) -> Tensor:
        batch, length = q.shape[:2]
        ends = [length * (i + 1) for i in range(batch)]  # sequences behind one another
        out = self.ops.nsa_selected_attention(
            *(t.flatten(0, 1) for t in (q, k, v)),
            blocks.flatten(0, 1).to(torch.int32),
            scale=scale,
            block_size=block_size,
            block_count=blocks.shape[-1],
            seq_q=ends,
            seq_kv=ends,
        )
        return (out[0] if isinstance(out, tuple) else out).unflatten(0, (batch, length))

    def head_loss(self, x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
        return self.ops.linear_cross_entropy(x, weight, target, group=self.group)
