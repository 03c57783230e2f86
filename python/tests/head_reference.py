"""linear_cross_entropy in f64, and how far from it rounding may be: docs/numerics.md, sum by sum."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

F32 = 2.0**-24  # half a unit in the last place, relative
HALF = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
LEAST = {torch.bfloat16: 2.0**-134, torch.float16: 2.0**-25}  # half the smallest subnormal number


class Answer(NamedTuple):
    value: Tensor
    bound: Tensor

    def check(self, got: Tensor, what: str) -> None:
        error = (got.detach().double() - self.value).abs()
        worst = (error - self.bound).argmax() if error.numel() else 0
        assert got.shape == self.value.shape, f"{what}: {got.shape}, expected {self.value.shape}"
        assert bool((error <= self.bound).all()), (
            f"{what}: error {error.flatten()[worst]:.3g} at {int(worst)}, allowed {self.bound.flatten()[worst]:.3g}"
        )


def of_sum(terms: int) -> float:
    return (8 + math.log2(max(terms, 1))) * F32


class Reference:
    """x [T, H], weight [V, H], bias [V], target [T]; rows whose target is ignored count for nothing."""

    def __init__(self, x, weight, target, bias=None, ignore_index=-100):
        self.dtype = x.dtype
        self.x, self.weight = x.detach().double(), weight.detach().double()
        self.bias = torch.zeros(weight.shape[0]).double() if bias is None else bias.detach().double()
        self.counted = target != ignore_index
        logits = self.x @ self.weight.T + self.bias
        size = self.x.abs() @ self.weight.abs().T + self.bias.abs()
        self.lse_all = logits.logsumexp(1)
        self.softmax = (logits - self.lse_all[:, None]).exp()
        self.onehot = torch.zeros_like(logits)
        rows = self.counted.nonzero()[:, 0]
        self.onehot[rows, target[rows].long()] = 1
        # Of a logit, of the sum of exponentials (relative), and of the two or three roundings of what is stored.
        self.of_logit = of_sum(x.shape[1] + 1) * size.max(1).values
        self.of_exp = 2 * self.of_logit + of_sum(weight.shape[0]) + 8 * F32
        stored = 4 * F32 * (logits.abs().max(1).values + self.lse_all.abs() + math.log(max(weight.shape[0], 1)))
        zero = torch.zeros_like(self.lse_all)
        self.lse = Answer(
            torch.where(self.counted, self.lse_all, zero), torch.where(self.counted, self.of_exp + stored, zero)
        )
        loss = self.lse_all - (logits * self.onehot).sum(1)
        self.loss = Answer(
            torch.where(self.counted, loss, zero), torch.where(self.counted, self.of_exp + 2 * stored, zero)
        )

    def reduced(self, reduction: str) -> Answer:
        value, bound = self.loss
        if reduction == "none":
            return self.loss
        total, error = value.sum(), bound.sum() + of_sum(value.numel()) * value.abs().sum()
        if reduction == "mean":
            count = self.counted.sum()
            total, error = total / count, error / count + F32 * (total / count).abs()
        return Answer(total, error)

    def gradients(self, grad_loss, grad_lse=None, parts: list[tuple[int, int]] | None = None) -> dict[str, Answer]:
        """Of Σ grad_loss·loss + grad_lse·lse; parts: whose share of dx is rounded by itself."""
        eps, least = HALF[self.dtype], LEAST[self.dtype]
        grad_loss = torch.where(self.counted, grad_loss.double(), 0.0)
        both = grad_loss + (0 if grad_lse is None else torch.where(self.counted, grad_lse.double(), 0.0))
        soft, hot = both[:, None] * self.softmax, grad_loss[:, None] * self.onehot
        g = soft - hot
        of_g = soft.abs() * self.of_exp[:, None] + 4 * F32 * (soft.abs() + hot.abs())
        of_g = of_g + eps * (g.abs() + of_g) + least
        dx, of_dx = self._product(g, of_g, self.weight, eps, least, parts or [(0, g.shape[1])])
        dweight, of_dweight = self._product(g.T, of_g.T, self.x, eps, least, [(0, g.shape[0])])
        ones = torch.ones(g.shape[0], 1).double()
        dbias, of_dbias = self._product(g.T, of_g.T, ones, eps, least, [(0, g.shape[0])])
        return {
            "input": Answer(dx, of_dx),
            "weight": Answer(dweight, of_dweight),
            "bias": Answer(dbias[:, 0], of_dbias[:, 0]),
        }

    @staticmethod
    def _product(g, of_g, other, eps, least, parts) -> tuple[Tensor, Tensor]:
        value = g @ other
        error = of_g @ other.abs() + of_sum(g.shape[1]) * (g.abs() @ other.abs())
        if len(parts) > 1:
            for a, b in parts:
                error = error + eps * (g[:, a:b] @ other[a:b]).abs() * (1 + eps) + least
        return value, error + eps * (value.abs() + error) + least
