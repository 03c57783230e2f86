"""Loads the extension that is the device, and gives PyTorch the names that go with it."""

import re
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

from gradus import _library  # noqa: F401  libgradus.so: the extension finds by its name what is loaded here


def _load() -> None:
    """The extension is written against one PyTorch's C++: in another one it would crash, so the file is asked first."""
    path = Path(__file__).with_name("_npu.so")
    if not path.exists():
        raise ImportError("gradus.torch_npu: this gradus was built without PyTorch and has no device npu")
    found = re.search(rb"gradus\.torch_npu built for torch ([0-9]+\.[0-9]+)\.([0-9]+);", path.read_bytes())
    built_for = found[1].decode() if found else "unknown"
    running = ".".join(torch.__version__.split(".")[:2])
    if built_for != running:
        raise ImportError(f"gradus.torch_npu: built for torch {built_for}, this is torch {torch.__version__}; install "
                          f"torch {built_for}, or build gradus with this one (./build.sh wheel)")
    if torch._C._get_privateuse1_backend_name() not in ("privateuseone", "npu"):
        other = torch._C._get_privateuse1_backend_name()
        raise ImportError(f"gradus.torch_npu: another device, {other!r}, has taken PyTorch's place for foreign devices")
    torch.utils.rename_privateuse1_backend("npu")
    torch.ops.load_library(path)


def _compile_eagerly() -> None:
    """torch.compile makes no code for the device: a graph that touches it runs as it was traced, with a word."""
    wrapper = torch._TorchCompileInductorWrapper
    with_inductor = wrapper.__call__

    def on_npu(value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.device.type == "npu"

    def touches_npu(graph: torch.fx.GraphModule, inputs: list[Any]) -> bool:
        nodes = (node.meta.get("example_value") for node in graph.graph.nodes)
        return any(map(on_npu, (*inputs, *graph.parameters(), *graph.buffers(), *nodes)))

    def call(self: Any, graph: torch.fx.GraphModule, inputs: list[Any], **patches: Any) -> Any:
        if not touches_npu(graph, inputs):
            return with_inductor(self, graph, inputs, **patches)
        warnings.warn("gradus.torch_npu: torch.compile makes no code for the device npu; it runs eagerly", stacklevel=2)
        return graph.forward

    wrapper.__call__ = call


_load()
from . import npu  # noqa: E402

torch._register_device_module("npu", npu)
sys.modules["torch.npu.amp"] = npu.amp  # for `from torch.npu.amp import autocast`
torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
_compile_eagerly()
