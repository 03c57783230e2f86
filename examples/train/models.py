"""Three small language models that between them use all five operators: llama, mamba2, nsa.

Each is a stack of blocks (a mixer of tokens, then a SwiGLU MLP) between an embedding and a head whose loss is computed
without the logits, where the operators can.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, LAYERS, HIDDEN = 256, 4, 704


class Mlp(nn.Module):
    def __init__(self, ops) -> None:
        super().__init__()
        self.ops = ops
        self.gate_up = nn.Linear(WIDTH, 2 * HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.ops.swiglu(self.gate_up(x)))


def rotated(x: Tensor) -> Tensor:
    """Rotary positions. x: [batch, length, heads, size]"""
    length, half = x.shape[1], x.shape[3] // 2
    frequency = 10000.0 ** -(torch.arange(half, dtype=torch.float64) / half)
    angle = torch.outer(torch.arange(length, dtype=torch.float64), frequency)[:, None, :]
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Attention(nn.Module):
    """Causal attention whose softmax is ScaledMaskedSoftmax."""

    heads, length, batch, rate = 4, 512, 4, 1e-3

    def __init__(self, ops) -> None:
        super().__init__()
        self.ops = ops
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        future = torch.ones(self.length, self.length, dtype=torch.bool).triu(1)
        self.register_buffer("future", future[None, None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(2)
        q, k = rotated(q).transpose(1, 2), rotated(k).transpose(1, 2)
        scores = q @ k.transpose(-1, -2)
        p = self.ops.scaled_masked_softmax(scores, self.future, 1 / math.sqrt(q.shape[-1]))
        return self.out((p @ v.transpose(1, 2)).transpose(1, 2).flatten(2))


class Ssd(nn.Module):
    """Mamba-2's layer in chunks: inside a chunk a product with ExpSegsum's matrix, between chunks a recurrence."""

    heads, state, chunk, length, batch = 8, 64, 64, 512, 4
    inner = 2 * WIDTH
    rate = 3e-4  # at 1e-3 it is so near to diverging that the losses of bf16, PyTorch's as well, are 0.1 from f64's

    def __init__(self, ops) -> None:
        super().__init__()
        self.ops = ops
        self.into = nn.Linear(WIDTH, self.inner + 2 * self.state + self.heads, bias=False)
        self.out = nn.Linear(self.inner, WIDTH, bias=False)
        self.norm = nn.RMSNorm(self.inner)
        self.decay = nn.Parameter(torch.linspace(0, 2, self.heads))  # A = −exp(decay)
        self.step = nn.Parameter(torch.linspace(-4, -1, self.heads))
        self.skip = nn.Parameter(torch.ones(self.inner))

    def forward(self, x: Tensor) -> Tensor:
        values, b, c, step = self.into(x).split((self.inner, self.state, self.state, self.heads), dim=-1)
        step = F.softplus(step.to(self.step.dtype) + self.step)  # [batch, length, heads]
        a = -step * self.decay.exp()
        u = values.unflatten(-1, (self.heads, -1)) * step.unsqueeze(-1)
        # chunks: a [batch, heads, chunks, chunk], u [.., chunk, size], b and c [batch, 1, chunks, chunk, state]
        a = a.transpose(1, 2).unflatten(-1, (-1, self.chunk))
        u = u.transpose(1, 2).unflatten(2, (-1, self.chunk))
        b, c = (t.unflatten(1, (-1, self.chunk)).unsqueeze(1) for t in (b, c))

        within = self.ops.exp_segsum(a.contiguous())
        y = ((c @ b.transpose(-1, -2)) * within) @ u
        states = (u * within[..., -1, :].unsqueeze(-1)).transpose(-1, -2) @ b  # what a chunk leaves behind
        between = self.ops.exp_segsum(F.pad(a.sum(-1), (1, 0)).contiguous())[..., 1:-1, 1:]
        before = F.pad(between.to(states.dtype) @ states.flatten(-2), (0, 0, 1, 0)).unflatten(-1, states.shape[-2:])
        y = y + (c @ before.transpose(-1, -2)) * a.cumsum(-1).exp().unsqueeze(-1)

        y = y.flatten(2, 3).transpose(1, 2).flatten(2).to(x.dtype)
        return self.out(self.norm(y + values * self.skip.to(x.dtype)))


class Nsa(nn.Module):
    """Native sparse attention's selected branch: each token attends to the blocks whose pooled keys it likes best."""

    groups, heads, size, block, count, length, batch, rate = 1, 4, 128, 64, 4, 1024, 2, 1e-3

    def __init__(self, ops) -> None:
        super().__init__()
        self.ops = ops
        self.q = nn.Linear(WIDTH, self.heads * self.size, bias=False)
        self.kv = nn.Linear(WIDTH, 2 * self.groups * self.size, bias=False)
        self.out = nn.Linear(self.heads * self.size, WIDTH, bias=False)
        of_token = torch.arange(self.length) // self.block
        self.register_buffer("of_token", of_token, persistent=False)

    @torch.no_grad()
    def choose(self, q: Tensor, k: Tensor) -> Tensor:
        """[batch, length, groups, count]: the token's own block, and the best of those before it."""
        pooled = k.unflatten(1, (-1, self.block)).mean(2).double()
        grouped = q.unflatten(2, (self.groups, -1)).sum(3).double()
        score = torch.einsum("btgd,bngd->btgn", grouped, pooled)
        number = torch.arange(pooled.shape[1], device=q.device)
        own = self.of_token[:, None, None]
        score = score.masked_fill(number > own, -torch.inf).masked_fill(number == own, torch.inf)
        return score.topk(self.count, dim=-1).indices

    def forward(self, x: Tensor) -> Tensor:
        q = rotated(self.q(x).unflatten(-1, (self.heads, self.size)))
        k, v = self.kv(x).unflatten(-1, (2, self.groups, self.size)).unbind(2)
        k = rotated(k)
        out = self.ops.selected_attention(q, k, v, self.choose(q, k), self.block, 1 / math.sqrt(self.size))
        return self.out(out.flatten(2))


MIXERS = {"llama": Attention, "mamba2": Ssd, "nsa": Nsa}


class Model(nn.Module):
    """vocabulary: of the embedding; rows: which of the head's this process holds."""

    def __init__(self, name: str, ops, vocabulary: int, rows: slice = slice(None)) -> None:
        super().__init__()
        self.ops = ops
        mixer = MIXERS[name]
        self.batch, self.length, self.rate = mixer.batch, mixer.length, mixer.rate
        self.embedding = nn.Embedding(vocabulary, WIDTH)
        self.mixers = nn.ModuleList(mixer(ops) for _ in range(LAYERS))
        self.mlps = nn.ModuleList(Mlp(ops) for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2 * LAYERS + 1))
        head = torch.empty(vocabulary, WIDTH)
        nn.init.normal_(head, std=0.02)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.head = nn.Parameter(head[rows].clone())

    def forward(self, tokens: Tensor, target: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for i, (mixer, mlp) in enumerate(zip(self.mixers, self.mlps)):
            x = x + mixer(self.norms[2 * i](x))
            x = x + mlp(self.norms[2 * i + 1](x))
        return self.ops.head_loss(self.norms[-1](x).flatten(0, 1), self.head, target.flatten())
