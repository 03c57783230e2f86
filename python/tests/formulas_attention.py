"""Attention over selected blocks in f64, row by row, with what its arithmetic may cost (bounds.py)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from bounds import Answer, Kind
from formulas import f8


@dataclass(frozen=True)
class Problem:
    kind: Kind
    query: np.ndarray  # [T1, N1, D]
    key: np.ndarray  # [T2, N2, D]
    value: np.ndarray  # [T2, N2, Dv]
    topk: np.ndarray  # [T1, N2, count]
    scale: float
    size: int
    causal: bool
    ends_q: list[int]
    ends_kv: list[int]

    def keys_of(self, row: int, key_head: int) -> np.ndarray:
        """Rows of key that a query sees, in the order of its list."""
        batch = int(np.searchsorted(self.ends_q, row, side="right"))
        first_q = self.ends_q[batch - 1] if batch else 0
        first_kv = self.ends_kv[batch - 1] if batch else 0
        inside = (self.topk[row, key_head].astype("i8")[:, None] * self.size + np.arange(self.size)).ravel()
        seen = (inside >= 0) & (inside < self.ends_kv[batch] - first_kv)
        if self.causal:
            seen &= inside <= row - first_q
        return first_kv + inside[seen]

    def rows(self):
        """Of every row and head: (row, head, key head, keys)."""
        heads, key_heads = self.query.shape[1], self.key.shape[1]
        for row in range(len(self.query)):
            for head in range(heads):
                key_head = head // (heads // key_heads)
                yield row, head, key_head, self.keys_of(row, key_head)

    def scores(self, row: int, head: int, key_head: int, keys: np.ndarray) -> Answer:
        q, k = f8(self.query[row, head]), f8(self.key[keys, key_head])
        dot, slack = k @ q, self.kind.sum(len(q)) * (np.abs(k) @ np.abs(q))
        return Answer(dot * self.scale, (slack + 2 * self.kind.u * np.abs(dot)) * abs(self.scale))


def forward(p: Problem) -> tuple[Answer, Answer, Answer]:
    """out, max and sum."""
    kind, (rows, heads, _) = p.kind, p.query.shape
    out, top, total = (Answer(np.zeros(shape), np.zeros(shape))
                       for shape in ((rows, heads, p.value.shape[2]), (rows, heads, 8), (rows, heads, 8)))
    for row, head, key_head, keys in p.rows():
        if len(keys) == 0:
            continue
        s = p.scores(row, head, key_head, keys)
        top.want[row, head], top.slack[row, head] = s.want.max(), s.slack.max()
        d = s.want - s.want.max()
        e = np.exp(d)
        e_slack = e * (np.expm1(s.slack + s.slack.max()) + kind.u * np.abs(d) + 2 * kind.u)
        sum_slack = e_slack.sum() + kind.sum(len(keys)) * e.sum()
        total.want[row, head], total.slack[row, head] = e.sum(), sum_slack
        prob = e / e.sum()
        slack = (e_slack + prob * sum_slack) / e.sum() + 2 * kind.u * prob
        slack += (prob + slack) * kind.half + kind.half_tiny + kind.sum(len(keys)) * prob
        v = f8(p.value[keys, key_head])
        out.want[row, head], out.slack[row, head] = prob @ v, slack @ np.abs(v)
    return out, top, total


def gradient(p: Problem, g: np.ndarray, out: np.ndarray | None, top: np.ndarray,
             total: np.ndarray) -> tuple[Answer, Answer, Answer]:
    """dq, dk and dv from statistics as given; P and dS are rounded to the 16-bit type."""
    kind = p.kind
    dq, dk, dv = (Answer(np.zeros(x.shape), np.zeros(x.shape)) for x in (p.query, p.key, p.value))
    by_rows = kind.sum(p.topk.size * p.query.shape[1] // p.key.shape[1])
    for row, head, key_head, keys in p.rows():
        if len(keys) == 0:
            continue
        s = p.scores(row, head, key_head, keys)
        grad, q = f8(g[row, head]), f8(p.query[row, head])
        k, v = f8(p.key[keys, key_head]), f8(p.value[keys, key_head])
        d = s.want - float(top[row, head, 0])
        prob = np.exp(d) / float(total[row, head, 0])
        prob_slack = prob * (np.expm1(s.slack) + kind.u * np.abs(d) + 3 * kind.u)
        dp, dp_slack = v @ grad, kind.sum(len(grad)) * (np.abs(v) @ np.abs(grad))
        by_keys = kind.sum(len(keys))
        if out is None:
            delta = prob @ dp
            delta_slack = prob_slack @ np.abs(dp) + prob @ dp_slack + by_keys * (prob @ np.abs(dp))
        else:
            o = f8(out[row, head])
            delta, delta_slack = grad @ o, kind.sum(len(grad)) * (np.abs(grad) @ np.abs(o))
        ds = prob * (dp - delta)
        ds_slack = prob_slack * np.abs(dp - delta) + (prob + prob_slack) * (dp_slack + delta_slack)
        ds_slack += 3 * kind.u * np.abs(ds)
        ds_slack += (np.abs(ds) + ds_slack) * kind.half + kind.half_tiny
        prob_slack = prob_slack + (prob + prob_slack) * kind.half + kind.half_tiny
        dq.want[row, head] = p.scale * (ds @ k)
        dq.slack[row, head] = abs(p.scale) * ((ds_slack + by_keys * np.abs(ds)) @ np.abs(k))
        at = (keys, key_head)  # np.add.at: a block may be listed twice
        np.add.at(dk.want, at, p.scale * np.outer(ds, q))
        np.add.at(dk.slack, at, abs(p.scale) * np.outer(ds_slack + by_rows * np.abs(ds), np.abs(q)))
        np.add.at(dv.want, at, np.outer(prob, grad))
        np.add.at(dv.slack, at, np.outer(prob_slack + by_rows * prob, np.abs(grad)))
    return dq, dk, dv
