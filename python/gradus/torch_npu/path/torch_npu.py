"""What a script for Ascend imports: gradus.torch_npu under torch_npu's name."""

import sys

import gradus.torch_npu.install  # noqa: F401
import torch
from gradus.torch_npu import _names, npu
from gradus.torch_npu._names import *  # noqa: F403

__version__ = torch.__version__
__all__ = ["npu", *_names.__all__]
# For `from torch_npu.npu import amp` and its like: this is a file, and what it holds lies elsewhere.
sys.modules["torch_npu.npu"], sys.modules["torch_npu.npu.amp"] = npu, npu.amp


def __getattr__(name: str) -> object:
    sentence = f"torch_npu here is gradus.torch_npu, which has no {name!r}; it has {', '.join(__all__)}"
    if not name.startswith("npu_"):
        raise AttributeError(sentence)

    def missing(*_: object, **__: object) -> None:
        raise NotImplementedError(sentence)

    return missing  # libraries import operators that they may never call
