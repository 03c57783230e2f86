"""The operators in f64 NumPy, from their definitions, each with what its arithmetic may cost (bounds.py)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from bounds import Answer, Kind


def f8(x: np.ndarray) -> np.ndarray:
    return np.asarray(x).astype("f8")


def sigmoid(a: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(a))
    return np.where(a < 0, e, 1) / (1 + e)


def swi_glu(kind: Kind, x: np.ndarray, dim: int) -> Answer:
    a, b = np.split(f8(x), 2, dim)
    y = a * sigmoid(a) * b
    return Answer(y, 4 * (2 * kind.u * np.abs(y) + kind.tiny * (1 + np.abs(a)) * (1 + np.abs(b))))


def swi_glu_grad(kind: Kind, g: np.ndarray, x: np.ndarray, dim: int) -> Answer:
    g = f8(g)
    a, b = np.split(f8(x), 2, dim)
    s, t = sigmoid(a), sigmoid(-a)
    da, db = g * b * (s + s * t * a), g * a * s
    largest = np.abs(g * b * s) * np.maximum(1, np.abs(t * a))  # the larger term of the sum that is da
    tiny = kind.tiny * (1 + np.abs(a))
    return Answer(np.concatenate([da, db], dim),
                  np.concatenate([4 * (2 * kind.u * largest + tiny * (1 + np.abs(g * b))),
                                  4 * (2 * kind.u * np.abs(db) + tiny * (1 + np.abs(g)))], dim))


def exp_segsum(kind: Kind, x: np.ndarray) -> Answer:
    x = f8(x)
    size = x.shape[-1]
    sums = np.zeros(x.shape + (size,))
    for j in range(size):
        sums[..., j + 1:, j] = np.cumsum(x[..., j + 1:], -1)
    below, diagonal = np.tri(size, k=-1), np.eye(size)
    want = np.exp(sums) * below + diagonal
    terms = size if kind.golden else 0  # the formula's own sums in f64
    return Answer(want, ((np.abs(sums) + 2 + terms) * kind.u * want + kind.tiny) * below)


def exp_segsum_backward(kind: Kind, g: np.ndarray, y: np.ndarray) -> Answer:
    p = f8(g) * f8(y)
    size = p.shape[-1]
    want, slack = np.zeros(p.shape[:-1]), np.zeros(p.shape[:-1])
    for k in range(1, size):
        part = p[..., k:, :k]  # every segment that x[k] is in
        n = part.shape[-1] * part.shape[-2]
        want[..., k] = part.sum((-1, -2))
        slack[..., k] = kind.sum(n) * np.abs(part).sum((-1, -2)) + n * kind.tiny
    return Answer(want, slack)


def softmax(kind: Kind, x: np.ndarray, mask: np.ndarray, scale: float) -> Answer:
    z = np.where(mask, -10000.0, f8(x) * np.float32(scale))
    d = z - z.max(-1, keepdims=True)
    y = np.exp(d)
    y /= y.sum(-1, keepdims=True)
    a = (np.where(mask, 0, np.abs(z)) + np.abs(d) + 2) * kind.u  # of the product, the difference and exp
    if kind.name in ("f16", "bf16"):
        a += np.abs(d) / 2 * kind.u
    shared = (y * a).sum(-1, keepdims=True) + kind.sum(x.shape[-1]) + 2 * kind.u
    return Answer(y, y * (a + shared) + 2 * kind.tiny)


def softmax_backward(kind: Kind, g: np.ndarray, y: np.ndarray, mask: np.ndarray, scale: float) -> Answer:
    y, scale = f8(y), float(np.float32(scale))
    t = f8(g) * y
    s = t.sum(-1, keepdims=True)
    d = t - s * y
    slack = np.abs(y) * kind.sum(t.shape[-1]) * np.abs(t).sum(-1, keepdims=True)
    slack += kind.u * (np.abs(t) + np.abs(s * y) + 2 * np.abs(d)) + 4 * kind.tiny
    return Answer(np.where(mask, 0, d * scale), np.where(mask, 0, abs(scale) * slack))


@dataclass(frozen=True)
class Shard:
    """Statistics of a shard's logits."""

    logits: Answer
    max: Answer
    sum: Answer
    predicted: Answer
    masked: np.ndarray
    masked_target: np.ndarray


def online_max_sum(kind: Kind, x: np.ndarray, w: np.ndarray, target: np.ndarray, start: int, end: int) -> Shard:
    x, w = f8(x), f8(w)
    rows = np.arange(len(x))
    logits = Answer(x @ w.T, kind.sum(x.shape[1]) * (np.abs(x) @ np.abs(w).T))
    top, top_slack = logits.want.max(1), logits.slack.max(1)
    d = logits.want - top[:, None]
    e = np.exp(d)
    e_slack = e * (np.expm1(logits.slack + top_slack[:, None]) + kind.u * np.abs(d) + 2 * kind.u)
    masked = (target < start) | (target >= end)
    word = np.where(masked, 0, target - start)
    picked = ~masked & (word < len(w))
    at = (rows, np.where(picked, word, 0))
    return Shard(logits, Answer(top, top_slack), Answer(e.sum(1), e_slack.sum(1) + kind.sum(len(w)) * e.sum(1)),
                 Answer(np.where(picked, d[at], 0), np.where(picked, logits.slack[at] + top_slack, 0)), masked, word)


def loss(kind: Kind, total: np.ndarray, predicted: np.ndarray) -> Answer:
    want = np.log(f8(total)) - f8(predicted)
    return Answer(want, kind.sum(2) * (np.abs(np.log(f8(total))) + np.abs(f8(predicted))))


def loss_softmax(kind: Kind, logits: np.ndarray, top: np.ndarray, total: np.ndarray) -> Answer:
    d = f8(logits) - f8(top)[:, None]
    want = np.exp(d) / f8(total)[:, None]
    return Answer(want, want * (np.abs(d) + 4) * kind.u + kind.tiny)


def loss_grad(kind: Kind, grad: np.ndarray, x: np.ndarray, w: np.ndarray, shard: Shard, top: np.ndarray,
              total: np.ndarray, softmax: np.ndarray | None = None) -> tuple[Answer, Answer]:
    """dx and dweight; g is rounded to the 16-bit type, everything else is summed in f32."""
    x, w, grad = f8(x), f8(w), f8(grad)[:, None]
    if softmax is None:
        d = shard.logits.want - f8(top)[:, None]
        q = np.exp(d) / f8(total)[:, None]
        slack = q * (np.expm1(shard.logits.slack) + kind.u * np.abs(d) + 3 * kind.u)
    else:
        q = f8(softmax).copy()
        slack = np.zeros(q.shape)
    rows = np.flatnonzero(~shard.masked & (shard.masked_target < len(w)))
    q[rows, shard.masked_target[rows]] -= 1
    g = q * grad
    slack = (slack + kind.u * np.abs(q)) * np.abs(grad) + kind.u * np.abs(g)
    slack = slack + (np.abs(g) + slack) * kind.half + kind.half_tiny
    return (Answer(g @ w, (slack + kind.sum(len(w)) * np.abs(g)) @ np.abs(w)),
            Answer(g.T @ x, (slack + kind.sum(len(x)) * np.abs(g)).T @ np.abs(x)))
