"""How far a result may be from its f64 formula: docs/numerics.md as code. Tolerances are derived here, never tuned."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import gradus
import numpy as np

try:
    import ml_dtypes
except ImportError:  # Debian has none: bf16 is then tested through DLPack alone
    ml_dtypes = None


@dataclass(frozen=True)
class Kind:
    """An element type and the arithmetic behind it: `u` is half an ulp of what is computed inside."""

    name: str
    dtype: Any
    digits: int
    least: int
    most: int
    u: float = 2.0**-24
    tiny: float = 2.0**-149  # the last step of the numbers inside
    half: float = 0.0  # what rounding an intermediate to the 16-bit type costs, relative
    half_tiny: float = 0.0  # and among its subnormals

    @property
    def golden(self) -> bool:
        return self.name == "f64"

    def options(self) -> AbstractContextManager[None]:
        return gradus.options(precision="golden") if self.golden else nullcontext()

    def sum(self, n: int) -> float:
        """Of Σ|terms| of n terms. Golden, and the formula beside it, add in a plain loop of f64."""
        return (n + 8) * self.u if self.golden else (8 + np.log2(max(n, 1))) * self.u

    def make(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(values, dtype="f8").astype(self.dtype)

    def normals(self, random: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
        return self.make(random.standard_normal(shape) * scale)

    def ulp(self, x: np.ndarray) -> np.ndarray:
        _, exponent = np.frexp(np.abs(x))
        return np.ldexp(1.0, np.clip(exponent - 1, self.least, self.most) - (self.digits - 1))

    def rounded(self, x: np.ndarray) -> np.ndarray:
        return np.rint(x / self.ulp(x)) * self.ulp(x)


F32 = Kind("f32", np.float32, 24, -126, 127)
F16 = Kind("f16", np.float16, 11, -14, 15, half=2.0**-11, half_tiny=2.0**-25)
# Two sides err here, golden and the formula: twice 2^-53.
F64 = Kind("f64", np.float64, 53, -1022, 1023, u=2.0**-52, tiny=2.0**-1073)
HALVES = [F16]
if ml_dtypes is not None:
    BF16 = Kind("bf16", ml_dtypes.bfloat16, 8, -126, 127, half=2.0**-8, half_tiny=2.0**-134)
    HALVES.append(BF16)
FLOATS = [F32, *HALVES, F64]
HALVES = [*HALVES, F64]


@dataclass(frozen=True)
class Answer:
    """What the formula says, and how far from it the numbers inside may be before the last rounding."""

    want: np.ndarray
    slack: np.ndarray


def check(kind: Kind, got: np.ndarray, answer: Answer, elementwise: bool = False) -> None:
    """Raises with a sentence about the worst element. `kind` is that of the result."""
    want, slack = answer.want, answer.slack
    assert got.shape == want.shape, f"shape {got.shape}, expected {want.shape}"
    assert got.dtype == kind.dtype, f"dtype {got.dtype}, expected {np.dtype(kind.dtype)}"
    if elementwise and kind.name in ("f16", "bf16"):
        want = kind.rounded(want)
        bound = slack + kind.ulp(want)
    elif elementwise:
        bound = slack
    else:
        bound = slack + 0.5 * kind.ulp(np.abs(want) + slack)
    error = np.abs(got.astype("f8") - want)
    bad = ~(error <= bound)
    if bad.any():
        at = np.unravel_index(np.argmax(np.where(bad, error / np.maximum(bound, 1e-300), -1)), got.shape)
        raise AssertionError(f"{bad.sum()} of {got.size} elements out of bounds, worst at {tuple(map(int, at))}: got "
                             f"{got[at]}, expected {want[at]}, allowed error {bound[at]}")
