"""torch.npu: devices, streams, events, memory and random numbers of the device, in the words of torch.cuda."""

from __future__ import annotations

import ctypes
import functools
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, accelerator

from gradus import _library

from . import amp

Device = int | str | torch.device | None

__all__ = [
    "Event", "Stream", "amp", "config", "current_device", "current_stream", "default_stream", "device", "device_count",
    "empty_cache", "get_amp_supported_dtype", "get_device_name", "get_device_properties", "get_rng_state",
    "get_rng_state_all", "init", "initial_seed", "is_available", "is_bf16_supported", "is_initialized", "manual_seed",
    "manual_seed_all", "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated",
    "memory_reserved", "memory_stats", "reset_max_memory_allocated", "reset_peak_memory_stats", "seed", "seed_all",
    "set_compile_mode", "set_device", "set_rng_state", "set_rng_state_all", "set_stream", "stream", "synchronize",
]


def _index(device: Device) -> int:
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "npu":
        raise ValueError(f"expected an npu device, got {device}")
    return current_device() if device.index is None else device.index


# Devices


def is_available() -> bool:
    return device_count() > 0


@functools.cache
def device_count() -> int:
    """The library's, eight unless GRADUS_DEVICES or ASCEND_RT_VISIBLE_DEVICES say otherwise."""
    count = ctypes.c_uint32()
    return count.value if _library._c.aclrtGetDeviceCount(ctypes.byref(count)) == 0 else 0


def current_device() -> int:
    return int(accelerator.current_device_index())


def set_device(device: Device) -> None:
    accelerator.set_device_index(_index(device))


def synchronize(device: Device = None) -> None:
    accelerator.synchronize(_index(device))


def get_device_name(device: Device = None) -> str:
    """The product that the library stands in for (GRADUS_SOC_NAME)."""
    _index(device)
    name = _library._c.aclrtGetSocName
    name.restype = ctypes.c_char_p
    return str(name().decode())


class Properties(NamedTuple):
    name: str
    total_memory: int


def get_device_properties(device: Device = None) -> Properties:
    return Properties(get_device_name(device), mem_get_info(device)[1])


def init() -> None:
    """Nothing to do: a device begins with its first use."""


_lazy_init = init


def is_initialized() -> bool:
    return True


def _is_in_bad_fork() -> bool:
    return False  # a child of fork works


class device:
    """Makes a device the current one inside a with block."""

    def __init__(self, device: Device) -> None:
        self.index = _index(device)

    def __enter__(self) -> None:
        self.before = current_device()
        set_device(self.index)

    def __exit__(self, *_: Any) -> Literal[False]:
        set_device(self.before)
        return False


# Streams and events: work is done when its call returns, so that they are there to be recorded and waited for


class Stream(torch.Stream):
    def __new__(cls, device: Device = None, priority: int = 0, **known: int) -> Stream:
        if known:  # stream_id, device_index, device_type: one that exists
            return super().__new__(cls, priority=priority, **known)
        return super().__new__(cls, device=torch.device("npu", _index(device)), priority=priority)

    def wait_event(self, event: torch.Event) -> None:
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        self.wait_event(stream.record_event())


class _AnyEvent(type):
    def __instancecheck__(cls, event: object) -> bool:
        return isinstance(event, torch.Event) and event.device.type == "npu"


class Event(metaclass=_AnyEvent):
    """A torch.Event of the device; not of a class of its own, with which torch.Event.elapsed_time refuses to work."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:
        return torch.Event("npu", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


def _as_ours(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device: Device = None) -> Stream:
    return _as_ours(accelerator.current_stream(_index(device)))


def default_stream(device: Device = None) -> Stream:
    kind = accelerator.current_stream(_index(device)).device_type
    return Stream(stream_id=0, device_index=_index(device), device_type=kind)


def set_stream(stream: torch.Stream | None) -> None:
    if stream is not None:
        accelerator.set_stream(stream)


class stream:
    """Makes a stream, and its device, the current one inside a with block; None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            self.device = current_device()
            self.before = accelerator.current_stream(self.stream.device_index)
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *_: Any) -> Literal[False]:
        if self.stream is not None:
            set_stream(self.before)
            set_device(self.device)
        return False


# Memory


def empty_cache() -> None:
    accelerator.empty_cache()


def memory_stats(device: Device = None) -> dict[str, Any]:
    return accelerator.memory_stats(_index(device))


def memory_allocated(device: Device = None) -> int:
    return int(accelerator.memory_allocated(_index(device)))


def max_memory_allocated(device: Device = None) -> int:
    return int(accelerator.max_memory_allocated(_index(device)))


def memory_reserved(device: Device = None) -> int:
    return int(accelerator.memory_reserved(_index(device)))


def max_memory_reserved(device: Device = None) -> int:
    return int(accelerator.max_memory_reserved(_index(device)))


def reset_peak_memory_stats(device: Device = None) -> None:
    accelerator.reset_peak_memory_stats(_index(device))


reset_max_memory_allocated = reset_peak_memory_stats


def mem_get_info(device: Device = None) -> tuple[int, int]:
    return accelerator.get_memory_info(_index(device))


# Random numbers: the CPU's own, so that a script gives the same results on both


def manual_seed(seed: int) -> None:
    torch.default_generator.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    manual_seed(seed)


def seed() -> int:
    return int(torch.default_generator.seed())


seed_all = seed


def initial_seed() -> int:
    return int(torch.default_generator.initial_seed())


def get_rng_state(device: Device = None) -> Tensor:
    _index(device)
    return torch.default_generator.get_state()


def set_rng_state(new_state: Tensor, device: Device = None) -> None:
    _index(device)
    torch.default_generator.set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    return [get_rng_state()] * device_count()


def set_rng_state_all(new_states: list[Tensor]) -> None:
    if new_states:
        set_rng_state(new_states[0])


# Types


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


def is_bf16_supported() -> bool:
    return True


# What scripts set before they begin: there is nothing to compile here, and tensors have one format only


config = SimpleNamespace(allow_internal_format=False)


def set_compile_mode(jit_compile: bool = False) -> None:
    """Nothing to do: operators are compiled already."""
