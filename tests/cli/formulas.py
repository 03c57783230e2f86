"""The eleven operators as plain formulas in NumPy, each with the mistakes that somebody who writes a kernel makes.

An operator is a function of its inputs (f64 arrays, attributes as they are), of a mistake ("" is none) and of what its
kernel rounds with; it gives its outputs in f64, before their last rounding. No line is shared with the library.
"""
import faults
import numpy as np


class Arithmetic:
    """How a kernel computes: v rounds a value on its way, add sums along an axis. The plain one is f64.

    factors, products, uses, sums: the dtype that values, the terms of a sum, a sum when it is used and its every step are
    rounded to; lanes: sums side by side, added up at the end; last_first: from their last term on; how: to nearest, or
    np.trunc.
    """

    def __init__(self, factors=None, products=None, uses=None, sums=None, lanes=1, last_first=False, how=np.rint):
        self.factors, self.products, self.uses, self.sums, self.lanes = factors, products, uses, sums, lanes
        self.order, self.how = slice(None, None, -1) if last_first else slice(None), how

    def v(self, x):
        return faults.rounded(x, self.factors, self.how) if self.factors else x

    def total(self, terms):
        """Of the first axis."""
        if self.products:
            terms = faults.rounded(terms, self.products, self.how)
        total = terms.sum(0)
        if self.sums:
            terms = terms[self.order]
            parts = [faults.accumulated(terms[lane::self.lanes], self.sums, self.how) for lane in range(self.lanes)]
            total = faults.accumulated(np.stack(parts), self.sums, self.how)
        return faults.rounded(total, self.uses, self.how) if self.uses else total

    def add(self, terms, axis):
        return self.total(np.moveaxis(terms, axis, 0))

    def dot(self, a, b):
        """[m, k] x [k, n]."""
        if not self.sums and not self.products:
            return faults.rounded(a @ b, self.uses, self.how) if self.uses else a @ b
        return self.total(a.T[:, :, None] * b[:, None, :])


PLAIN = Arithmetic()


def sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


# ---------------------------------------------------------------- swi_glu

def swi_glu(i, mistake="", k=PLAIN):
    a, b = np.split(i["x"], 2, axis=i["dim"])
    if mistake == "halves of x exchanged":
        a, b = b, a
    gate = k.v(sigmoid(a))
    if mistake == "tanh approximation of sigmoid missing a half":
        gate = (1 + np.tanh(a)) / 2
    if mistake == "sigmoid of -A":
        gate = sigmoid(-a)
    y = k.v(a * gate) * b
    if mistake == "A missing":
        y = gate * b
    elif mistake == "sigmoid missing":
        y = a * b
    elif mistake == "sigmoid of B too":
        y = y * sigmoid(b)
    elif mistake == "relu for silu":
        y = np.maximum(a, 0) * b
    elif mistake == "gelu for silu":
        y = a * sigmoid(1.702 * a) * b
    elif mistake == "B not multiplied in the last 16":
        y[..., -16:] = (a * gate)[..., -16:]
    elif mistake == "odd lanes hold the even ones":
        y[..., 1::2] = y[..., ::2]
    elif mistake == "last row not written":
        y[-1] = 0
    elif mistake == "B of the next column":
        y = a * gate * np.roll(b, -1, -1)
    elif mistake == "clamped at 1":
        y = np.clip(y, -1, 1)
    elif mistake == "sign and stale rows":
        y[3] *= -1
        y[5] = y[6]
    return {"out": y}


SWI_GLU = ["halves of x exchanged", "tanh approximation of sigmoid missing a half", "sigmoid of -A", "A missing",
           "sigmoid missing", "sigmoid of B too", "relu for silu", "gelu for silu", "B not multiplied in the last 16",
           "odd lanes hold the even ones", "last row not written", "B of the next column", "clamped at 1",
           "sign and stale rows"]


def swi_glu_grad(i, mistake="", k=PLAIN):
    a, b = np.split(i["x"], 2, axis=i["dim"])
    g = i["yGrad"]
    if mistake == "halves of x exchanged":
        a, b = b, a
    s = k.v(sigmoid(a))
    slope = s + k.v(s * (1 - s)) * a
    if mistake == "s(1-s)A missing":
        slope = s
    elif mistake == "s missing":
        slope = s * (1 - s) * a
    elif mistake == "wrong parenthesis":
        slope = s * (1 - s * a)
    elif mistake == "minus s(1-s)A":
        slope = s - s * (1 - s) * a
    elif mistake == "s(1-s) without A":
        slope = s + s * (1 - s)
    elif mistake == "s squared":
        slope = s + s * s * a
    da, db = g * k.v(b * slope), g * k.v(a * s)
    if mistake == "dB without s":
        db = g * a
    elif mistake == "dA without B":
        da = g * slope
    elif mistake == "dB without yGrad":
        db = a * s
    elif mistake == "dA and dB exchanged":
        da, db = db, da
    elif mistake == "dA twice":
        db = da
    elif mistake == "yGrad of the row before":
        da = np.roll(g, 1, 0) * b * slope
    elif mistake == "last 8 columns of dA missing":
        da[..., -8:] = 0
    elif mistake == "dB negated where A is negative":
        db = np.where(a < 0, -db, db)
    return {"out": np.concatenate([da, db], axis=i["dim"])}


SWI_GLU_GRAD = ["halves of x exchanged", "s(1-s)A missing", "s missing", "wrong parenthesis", "minus s(1-s)A",
                "s(1-s) without A", "s squared", "dB without s", "dA without B", "dB without yGrad",
                "dA and dB exchanged", "dA twice", "yGrad of the row before", "last 8 columns of dA missing",
                "dB negated where A is negative"]


# ---------------------------------------------------------------- scaled_masked_softmax

def masked(mask, mistake):
    if mistake == "mask ignored":
        return np.zeros_like(mask)
    if mistake == "mask inverted":
        return ~mask
    if mistake == "mask one column off":
        return np.concatenate([mask[..., :1], mask[..., :-1]], -1)
    if mistake == "mask one row off":
        return np.roll(mask, 1, -2)
    if mistake == "mask of the first batch":
        return np.broadcast_to(mask[:1], mask.shape)
    return mask


def softmax(i, mistake="", k=PLAIN):
    mask = np.broadcast_to(masked(i["mask"].astype(bool), mistake), i["x"].shape)
    scale = i["scale"]
    if mistake == "scale missing":
        scale = 1
    elif mistake == "scale twice":
        scale = scale * scale
    elif mistake == "scale times 1.2":
        scale = scale * 1.2
    z = np.where(mask, -10000.0, k.v(i["x"] * scale))
    if mistake == "scale after the mask":
        z = np.where(mask, -10000.0, i["x"]) * scale
    elif mistake == "mask added, not selected":
        z = i["x"] * scale + np.where(mask, -10.0, 0)
    top = z.max(-1, keepdims=True)
    if mistake == "max of the first half":
        top = z[..., :z.shape[-1] // 2].max(-1, keepdims=True)
    e = k.v(np.exp(k.v(z - top)))
    terms = e.copy()
    for size in (16, 32):
        if mistake == f"last {size} of the sum missing":
            terms[..., -size:] = 0
    if mistake == "every 16th of the sum missing":
        terms[..., 15::16] = 0
    total = k.add(terms, -1)[..., None]
    if mistake == "1 added to the sum":
        total = total + 1
    y = e / total
    if mistake == "not divided":
        y = e
    elif mistake == "sum of the row before":
        y = e / np.roll(total, 1, -2)
    elif mistake == "log softmax":
        y = z - top - np.log(total)
    elif mistake == "exp2 for exp":
        e = np.exp2(z - top)
        y = e / e.sum(-1, keepdims=True)
    elif mistake == "masked set to 0 afterwards":
        y = np.where(mask, 0, y)
    elif mistake == "heads exchanged":
        y = np.roll(y, 1, 1)
    return {"y": y}


SOFTMAX = ["mask ignored", "mask inverted", "mask one column off", "mask one row off", "scale missing", "scale twice",
           "max of the first half", "mask added, not selected", "last 16 of the sum missing", "last 32 of the sum missing",
           "not divided", "sum of the row before", "log softmax", "exp2 for exp", "masked set to 0 afterwards",
           "heads exchanged", "1 added to the sum", "scale times 1.2", "every 16th of the sum missing"]
# what is not wrong: with the max of anything the quotient is the same; scaled, -10000 is as good as minus infinity
SOFTMAX = [m for m in SOFTMAX if m != "max of the first half"]


def softmax_backward(i, mistake="", k=PLAIN):
    mask = np.broadcast_to(masked(i["mask"].astype(bool), mistake), i["y"].shape)
    g, y, scale = i["gradOutput"], i["y"], i["scale"]
    t = k.v(g * y)
    terms = t.copy()
    for size in (16, 32):
        if mistake == f"last {size} of the sum missing":
            terms[..., -size:] = 0
    if mistake == "block of 16 of the sum missing":
        terms[..., 32:48] = 0
    elif mistake == "block of 16 of the sum twice":
        terms[..., 48:64] *= 2
    elif mistake == "every 16th of the sum missing":
        terms[..., 15::16] = 0
    total = k.v(k.add(terms, -1)[..., None])
    if mistake == "sum missing":
        total = 0
    elif mistake == "mean for sum":
        total = total / g.shape[-1]
    elif mistake == "sum of the row before":
        total = np.roll(total, 1, -2)
    out = t - k.v(total * y)
    if mistake == "plus the sum":
        out = t + total * y
    elif mistake == "sum not times y":
        out = t - total
    elif mistake == "y missing":
        out = g - total
    elif mistake == "y twice":
        out = out * y
    if mistake == "scale missing":
        scale = 1
    elif mistake == "scale twice":
        scale = scale * scale
    elif mistake == "divided by the scale":
        scale = 1 / scale
    out = np.where(mask, 0, out * scale)
    if mistake == "small ones negated":
        out = np.where(np.abs(out) < np.abs(out).max(-1, keepdims=True) / 32, -out, out)
    elif mistake == "batches exchanged":
        out = np.roll(out, 1, 0)
    return {"out": out}


SOFTMAX_BACKWARD = ["mask ignored", "mask inverted", "mask one row off", "last 16 of the sum missing",
                    "last 32 of the sum missing", "block of 16 of the sum missing", "block of 16 of the sum twice", "every 16th of the sum missing", "sum missing",
                    "mean for sum", "sum of the row before", "plus the sum", "sum not times y", "y missing", "y twice",
                    "scale missing", "scale twice", "divided by the scale", "small ones negated", "batches exchanged"]


# ---------------------------------------------------------------- exp_segsum

def exp_segsum(i, mistake="", k=PLAIN):
    x = i["self"]
    n = x.shape[-1]
    if mistake == "self one element on":
        x = np.concatenate([x[..., 1:], x[..., -1:]], -1)
    elif mistake == "self negated":
        x = -x
    sums = np.zeros(x.shape + (n,))
    for row in range(n):
        for column in range(row):
            low = column if mistake == "from self[j]" else column + 1
            high = row if mistake == "without self[i]" else row + 1
            if mistake == "block of 16 missing":
                part = np.concatenate([x[..., low:min(high, 16)], x[..., max(low, 32):high]], -1)
            else:
                part = x[..., low:high]
            sums[..., row, column] = k.add(part, -1) if part.shape[-1] else 0
    y = np.exp(sums)
    below = np.tril(np.ones((n, n), bool), -1)
    y = np.where(below, y, 0)
    if mistake == "exp missing":
        y = np.where(below, sums, 0)
    elif mistake == "exp2 for exp":
        y = np.where(below, np.exp2(sums), 0)
    elif mistake == "sums kept between 0 and 1":
        y = np.where(below, np.exp(np.clip(sums, -1, 0)), 0)
    diagonal = np.eye(n, dtype=bool)
    y = np.where(diagonal, 0 if mistake == "0 on the diagonal" else 1, y)
    if mistake == "1 above the diagonal":
        y = np.where(~below & ~diagonal, 1, y)
    elif mistake == "transposed":
        y = np.swapaxes(y, -1, -2).copy()
    elif mistake == "half flushed to zero":
        y = np.where(y < np.median(y[..., below]), 0, y)
    elif mistake == "last 16 columns missing":
        y[..., -16:] = 0
    elif mistake == "heads exchanged":
        y = np.roll(y, 1, 1)
    return {"out": y}


EXP_SEGSUM = ["self one element on", "self negated", "from self[j]", "without self[i]", "block of 16 missing", "exp missing",
              "exp2 for exp", "sums kept between 0 and 1", "0 on the diagonal", "1 above the diagonal", "transposed",
              "half flushed to zero", "last 16 columns missing", "heads exchanged"]


def exp_segsum_backward(i, mistake="", k=PLAIN):
    g, y = i["gradOutput"], i["gradSelf"]
    n = g.shape[-1]
    p = k.v(g * y)
    if mistake == "gradSelf missing":
        p = g
    elif mistake == "gradOutput transposed":
        p = np.swapaxes(g, -1, -2) * y
    elif mistake == "gradSelf added":
        p = g + y
    p = np.where(np.tril(np.ones((n, n), bool), 0 if mistake == "diagonal too" else -1), p, 0)
    for size in (16, 32):
        if mistake == f"last {size} rows missing":
            p[..., -size:, :] = 0
    if mistake == "first 16 columns missing":
        p[..., :16] = 0
    elif mistake == "last 16 rows twice":
        p[..., -16:, :] *= 2
    out = np.zeros(g.shape[:-1])
    for at in range(n):
        rows = slice(at + 1 if mistake == "i > k" else at, n)
        columns = slice(0, at + 1 if mistake == "diagonal too" else at)
        if mistake == "only column k - 1":
            columns = slice(max(0, at - 1), at)
        elif mistake == "only row k":
            rows = slice(at, at + 1)
        elif mistake == "i < k":
            rows = slice(0, at)
        part = p[..., rows, columns].reshape(*p.shape[:-2], -1)
        out[..., at] = k.add(part, -1)
    if mistake == "difference of neighbours":
        out[..., :-1] -= out[..., 1:].copy()
    elif mistake == "shifted by one":
        out = np.roll(out, 1, -1)
    elif mistake == "reversed":
        out = out[..., ::-1].copy()
    elif mistake == "mean for sum":
        out = out / n
    elif mistake == "heads exchanged":
        out = np.roll(out, 1, 1)
    return {"gradInput": out}


EXP_SEGSUM_BACKWARD = ["gradSelf missing", "gradOutput transposed", "gradSelf added", "diagonal too", "last 16 rows missing",
                       "last 32 rows missing", "last 16 rows twice", "first 16 columns missing", "i > k", "only column k - 1", "only row k", "i < k",
                       "difference of neighbours", "shifted by one", "reversed", "mean for sum", "heads exchanged"]
