"""Importing this makes `import torch_npu`, torch.npu and the device `npu` work in this process and those it spawns."""

import importlib.util
import sys
from pathlib import Path

_path = str(Path(__file__).with_name("path"))  # holds nothing but torch_npu.py


def _refuse_beside_the_real_one() -> None:
    spec = importlib.util.find_spec("torch_npu")
    if spec is not None and not str(spec.origin).startswith(_path):
        raise ImportError(f"gradus.torch_npu: the real torch_npu is installed ({spec.origin}) and both cannot be in "
                          "one process; run the script without gradus.torch_npu, or where there is no torch_npu")


_refuse_beside_the_real_one()
if _path not in sys.path:
    sys.path.append(_path)  # a list that multiprocessing hands on to the processes it spawns

from . import _device, _names  # noqa: E402, F401  the device first: the names run on it
