"""Arrays of others as the C interface wants them: address, dtype, shape and strides; never a copy."""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from ctypes import c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass, replace
from typing import Any

# Names as NumPy has them, numbers of aclDataType.
DTYPES = {"float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6, "uint16": 7, "uint32": 8,
          "int64": 9, "uint64": 10, "float64": 11, "bool": 12, "complex64": 16, "complex128": 17, "bfloat16": 27}
NAMES = {number: name for name, number in DTYPES.items()}
INTEGERS = {DTYPES[name] for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")}
CONTIGUOUS = "np.ascontiguousarray(x) is one that works"


class Refusal(Exception):
    """Why an array cannot be handed to C; the caller knows the operator and the argument."""


@dataclass(frozen=True)
class View:
    """Memory that somebody else owns; strides count elements."""

    address: int
    dtype: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    readonly: bool
    owner: Any  # keeps the memory alive

    @property
    def extent(self) -> int:
        """Elements from the first to the last one touched."""
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides))

    def broadcast(self, shape: tuple[int, ...]) -> View:
        """Leading dims that are missing, and dims of 1 beside another size, by strides of 0; the rest as it is."""
        if len(self.shape) > len(shape):
            return self
        missing = (1,) * (len(shape) - len(self.shape))
        pairs = zip(missing + self.shape, (0,) * len(missing) + self.strides, shape)
        spread = [(wanted, 0) if size == 1 and wanted != 1 else (size, stride) for size, stride, wanted in pairs]
        return replace(self, shape=tuple(s for s, _ in spread), strides=tuple(t for _, t in spread))


def view_of(array: Any) -> View:
    np = sys.modules.get("numpy")  # who has an array has imported it
    if np is not None and isinstance(array, np.ndarray):
        return _of_ndarray(array)
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array)
    raise TypeError(f"{type(array).__name__}, expected a NumPy array or an object with __dlpack__")


def _in_elements(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """A dim of one element, or any of an empty array, may claim any stride: the row-major one says the least."""
    result: list[int] = []
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        chosen = step if size == 1 or 0 in shape else stride
        if chosen < 0:
            raise Refusal(f"strides {strides} of an array turned around, expected none below 0: {CONTIGUOUS}")
        result.append(chosen)
        step = chosen * size
    return tuple(reversed(result))


@functools.cache  # NumPy makes up a dtype's name anew every time, which takes longer than all the rest
def _number_of(dtype: Any) -> int:
    if not dtype.isnative:
        raise Refusal(f"dtype {dtype.str} in foreign byte order, expected this machine's: "
                      f"x.astype(x.dtype.newbyteorder('=')) has it")
    if dtype.name not in DTYPES:
        raise Refusal(f"dtype {dtype.name}, expected one of {', '.join(DTYPES)}")
    return DTYPES[dtype.name]


def _of_ndarray(array: Any) -> View:
    shape, steps, size = array.shape, array.strides, array.itemsize
    number = _number_of(array.dtype)
    if any(step % size for count, step in zip(shape, steps) if count > 1):
        raise Refusal(f"strides {steps} in bytes, expected multiples of the {size} of an element: {CONTIGUOUS}")
    strides = _in_elements(shape, tuple(step // size for step in steps))
    address = array.ctypes.data
    if address % array.dtype.alignment:
        raise Refusal(f"memory that begins at no multiple of {size} bytes, expected so: x.copy() is one that works")
    return View(address, number, shape, strides, not array.flags.writeable, array)


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", ctypes.POINTER(c_int64)),
                ("strides", ctypes.POINTER(c_int64)), ("byte_offset", c_uint64)]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned; the unversioned one begins with the tensor."""

    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("tensor", _Tensor)]


_READ_ONLY = 1
_CPU, _PINNED = 1, 3  # DLDeviceType; pinned memory is the host's as well
_TYPES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.restype, _capsule_is.argtypes = c_int, [ctypes.py_object, c_char_p]


def _dlpack_name(tensor: _Tensor) -> str:
    word = _TYPES.get(tensor.code, f"type {tensor.code} of ")
    return "bool" if word == "bool" else f"{word}{tensor.bits}" + (f"x{tensor.lanes}" if tensor.lanes != 1 else "")


def _of_dlpack(array: Any) -> View:
    device = tuple(array.__dlpack_device__())
    if device[0] not in (_CPU, _PINNED):
        raise Refusal(f"memory of device {int(device[0])} (DLPack's number), expected the CPU's, which is 1")
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:  # an exporter from before versions
        capsule = array.__dlpack__()
    # The capsule is read, not taken over: while it lives the memory does, and it cleans up by itself.
    if _capsule_is(capsule, b"dltensor_versioned"):
        managed = ctypes.cast(_capsule_pointer(capsule, b"dltensor_versioned"), ctypes.POINTER(_Versioned)).contents
        if managed.major > 1:
            raise Refusal(f"DLPack version {managed.major}, expected 1 or older")
        tensor, readonly = managed.tensor, bool(managed.flags & _READ_ONLY)
    else:
        tensor = ctypes.cast(_capsule_pointer(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents
        readonly = False
    name = _dlpack_name(tensor)
    if name not in DTYPES:
        raise Refusal(f"dtype {name}, expected one of {', '.join(DTYPES)}")
    shape = tuple(tensor.shape[:tensor.ndim])
    strides = tuple(tensor.strides[:tensor.ndim]) if tensor.strides else tuple(
        math.prod(shape[d + 1:]) for d in range(len(shape)))
    address = (tensor.data or 0) + tensor.byte_offset
    return View(address, DTYPES[name], shape, _in_elements(shape, strides), readonly, (array, capsule))


def numpy() -> Any:
    """NumPy, or why it is needed: version, catalogue and call() do without."""
    try:
        import numpy as np
    except ImportError as error:
        raise ImportError("gradus: functions that make arrays need NumPy: pip install 'gradus-ops[numpy]'") from error
    return np


def new_array(shape: tuple[int, ...], dtype: int) -> Any:
    """An array to write into."""
    np = numpy()
    if NAMES[dtype] != "bfloat16":
        return np.empty(shape, NAMES[dtype])
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError("gradus: new bf16 arrays need ml_dtypes: pip install 'gradus-ops[numpy]'; "
                          "out= does without") from error
    return np.empty(shape, ml_dtypes.bfloat16)


def indices(array: Any, *wanted: str) -> View:
    """An integer array as one of the wanted dtypes: the first, unless it has one already. What that cannot hold becomes
    its smallest or largest number, which is no index of anything either."""
    view = view_of(array)
    if NAMES[view.dtype] in wanted or view.dtype not in INTEGERS:  # what is no integer is refused by the operator
        return view
    np = numpy()
    values = array if isinstance(array, np.ndarray) else np.from_dlpack(array)
    to, of = np.iinfo(wanted[0]), np.iinfo(values.dtype)
    return view_of(np.clip(values, max(to.min, of.min), min(to.max, of.max)).astype(wanted[0]))
