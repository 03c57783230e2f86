"""What is compared: an operator at a shape, and all ways in which PyTorch can compute the same."""

from dataclasses import dataclass, field
from typing import Callable

import torch


@dataclass
class Case:
    """One operator at one shape. Every callable computes into memory that is warm after its first call."""

    ours: Callable[[], None]
    result: list[torch.Tensor]  # what ours writes
    # Way -> a function that returns the same tensors, the likely best first: what is hopeless beside it is not repeated.
    # Those in compiled are given to torch.compile.
    eager: dict[str, Callable[[], list[torch.Tensor]]]
    compiled: dict[str, Callable[[Callable], Callable[[], list[torch.Tensor]]]]
    # The right answer in float64 for some part of the result, and that part of it.
    expected: Callable[[], list[torch.Tensor]]
    part: Callable[[torch.Tensor], torch.Tensor]


@dataclass
class Operator:
    build: Callable[..., Case]  # (library, shape, dtype)
    shapes: list[tuple[int, ...]]
    target: dict[torch.dtype, float]  # times faster than the best peer
    dtypes: list[torch.dtype] = field(default_factory=lambda: [torch.bfloat16, torch.float16, torch.float32])


HALVES = [torch.bfloat16, torch.float16]


def random(shape, dtype):
    return torch.randn(shape, dtype=torch.float32).to(dtype)


def some_rows(x):
    return x[:: max(1, x.shape[0] // 64)]


def targets(bf16, other):
    return {torch.bfloat16: bf16, torch.float16: other, torch.float32: other}
