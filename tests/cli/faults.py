"""The 16-bit types in NumPy, the operators as plain formulas, and the mistakes a kernel could make."""
import numpy as np

DIGITS = {"f32": 24, "f16": 11, "bf16": 8}
LEAST = {"f32": -126, "f16": -14, "bf16": -126}


def spacing(x, dtype):
    _, exponent = np.frexp(np.abs(np.where(np.isfinite(x), x, 0)))
    return np.ldexp(1.0, np.maximum(exponent - 1, LEAST[dtype]) - (DIGITS[dtype] - 1))


def rounded(x, dtype, how=np.rint):
    """x as f64, on the grid of the dtype; how=np.trunc: towards zero."""
    x = np.asarray(x, np.float64)
    unit = spacing(x, dtype)
    with np.errstate(invalid="ignore"):
        y = np.where(np.isfinite(x), how(np.where(np.isfinite(x), x, 0) / unit) * unit, x)
    top = {"f32": 2.0**128, "f16": 2.0**16, "bf16": 2.0**128}[dtype]
    return np.where(np.abs(y) >= top, np.copysign(np.inf, y), y)


def stored(x, dtype, how=np.rint):
    """The array as a .npy file holds it: bf16 as raw 16-bit words."""
    y = rounded(x, dtype, how)
    if dtype == "f16":
        return y.astype(np.float16)
    y = y.astype(np.float32)
    return y if dtype == "f32" else (y.view(np.uint32) >> 16).astype(np.uint16)


def loaded(array, dtype):
    if dtype == "bf16" and array.dtype != np.float32:
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def swi_glu_grad(grad, x):
    a, b = np.split(x, 2, axis=-1)
    s = sigmoid(a)
    return np.concatenate([grad * b * (s + s * (1 - s) * a), grad * a * s], axis=-1)


def softmax_backward(grad, y, mask, scale):
    t = grad * y
    return np.where(mask, 0, (t - t.sum(-1, keepdims=True) * y) * scale)


def accumulated(terms, dtype, how=np.rint):
    """Sums over the first axis, carried in a dtype."""
    total = np.zeros(terms.shape[1:])
    for term in terms:
        total = rounded(total + term, dtype, how)
    return total


def plant(fault, want, dtype):
    """want (f64) with a mistake in it; where it is, for the test to look for."""
    got = want.copy()
    columns = want.shape[-1]
    rows = got.reshape(-1, columns)
    middle = rows.shape[0] // 2 - 1  # the last of a matrix: no causal mask is there
    if fault == "sign_element":
        at = np.argsort(np.abs(rows[middle]))[-columns // 4]  # not the largest, nor a masked one
        rows[middle, at] *= -1
    elif fault == "sign_row":
        rows[middle] *= -1
    elif fault == "wrong_row":
        rows[middle] = np.random.default_rng(5).permutation(rows[middle]) * 1.7
    elif fault == "stale_row":
        rows[middle] = rows[middle - 1]
    elif fault == "shifted_row":
        rows[middle, 1:] = rows[middle, :-1].copy()
    elif fault == "shifted":
        got.reshape(-1)[1:] = want.reshape(-1)[:-1]
    elif fault == "row_tail":
        rows[:, -5:] = 0
    elif fault == "tail":
        got.reshape(-1)[-5:] = 0
    elif fault == "nan":
        rows[middle, 3] = np.nan
    elif fault == "nan_tail":
        rows[:, -3:] = np.nan
    elif fault == "overflow":
        rows[0, np.argmax(np.abs(rows[0]))] = np.inf
    elif fault == "scale":
        got *= 0.125
    elif fault == "scale_third":
        got /= 3
    elif fault == "zero":
        got[:] = 0
    elif fault == "constant":
        rows[middle] = 7.25
    elif fault == "halves":
        rows[:] = np.roll(rows, columns // 2, axis=-1)
    elif fault == "noise":  # of 2^-4 of the values
        got += np.random.default_rng(6).normal(size=got.shape) * 2.0**-4 * np.sqrt(np.mean(want**2))
    elif fault == "unlike":
        got = np.random.default_rng(7).normal(size=got.shape) * np.std(want)
    else:
        raise KeyError(fault)
    return got
