"""Memory that is handed out by DLPack alone, as other libraries do it; needs no NumPy."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

FLOAT, BFLOAT, INT, BOOL = 2, 4, 0, 6


class _Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device", c_int32 * 2), ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8),
                ("lanes", c_uint16), ("shape", c_void_p), ("strides", c_void_p), ("byte_offset", c_uint64)]


class _Old(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("manager", c_void_p), ("deleter", c_void_p)]


class _New(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("tensor", _Tensor)]


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]


class Exported:
    """A tensor at an address. versioned: the interface of DLPack 1, which knows of read-only memory."""

    def __init__(self, address, shape, strides=None, code=FLOAT, bits=32, *, device=1, versioned=False, readonly=False,
                 major=1, byte_offset=0, lanes=1, owner=None):
        self.kept = owner, (c_int64 * len(shape))(*shape), (c_int64 * len(shape))(*(strides or ()))
        tensor = _Tensor(address, (c_int32 * 2)(device, 0), len(shape), code, bits, lanes,
                         ctypes.addressof(self.kept[1]),
                         None if strides is None else ctypes.addressof(self.kept[2]), byte_offset)
        self.device, self.versioned = device, versioned
        self.managed = _New(major, 0, None, None, int(readonly), tensor) if versioned else _Old(tensor, None, None)
        if versioned:
            self.__dlpack__ = self._dlpack_1

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self):
        return _new_capsule(ctypes.addressof(self.managed), b"dltensor", None)

    def _dlpack_1(self, *, max_version=None):
        return _new_capsule(ctypes.addressof(self.managed), b"dltensor_versioned", None)


def of_floats(values, **more):
    """One row of f32."""
    memory = (ctypes.c_float * len(values))(*values)
    return Exported(ctypes.addressof(memory), (len(values),), owner=memory, **more), memory
