"""Imported first by the tests of gradus.torch_npu: the device, and what they compare it with."""

import gradus.torch_npu.install  # noqa: F401
import torch
from torch.utils import _pytree


def moved(tree, device: str = "npu"):
    """Copies of all tensors on a device; leaves that want gradients want them there too."""
    def move(x):
        if isinstance(x, torch.Tensor):
            copy = x.detach().clone() if device == "cpu" else x.detach().to(device)
            return copy.requires_grad_(x.requires_grad)
        return x
    return _pytree.tree_map(move, tree)


def tensors(tree) -> list[torch.Tensor]:
    return [x for x in _pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def bits(x: torch.Tensor) -> torch.Tensor:
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    x = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    return x.resolve_neg().contiguous().view(whole[x.element_size()])


def assert_same_bits(npu, cpu) -> None:
    """Every tensor of one structure is on the device and has the dtype, shape and bits of the other's."""
    ours, theirs = tensors(npu), tensors(cpu)
    assert len(ours) == len(theirs)
    for got, want in zip(ours, theirs):
        assert got.device.type == "npu", f"on {got.device}"
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        got, want = got.detach().cpu(), want.detach()
        if not torch.equal(bits(got), bits(want)):  # two NaNs may differ in bits that nobody set
            assert torch.equal(got.isnan(), want.isnan())
            assert torch.equal(bits(got[~got.isnan()]), bits(want[~want.isnan()]))
