"""The library through its C interface, on memory that PyTorch owns."""

import ctypes
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int, c_int32, c_int64, c_uint64, c_void_p
from pathlib import Path

import torch

DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 27, torch.int32: 3, torch.int64: 9, torch.uint8: 4,
          torch.bool: 12}
FORMAT_ND = 2
TENSOR, INT_ARRAY, INT, DOUBLE, BOOL, STRING = range(6)


class Value(ctypes.Union):
    _fields_ = [("tensor", c_void_p), ("array", c_void_p), ("i", c_int64), ("d", c_double), ("b", c_bool),
                ("s", c_char_p)]


class Arg(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("kind", c_int), ("value", Value)]


class Library:
    """An installed library. Only one per process makes sense: its options are the process's."""

    def __init__(self, prefix, threads):
        self.c = ctypes.CDLL(str(Path(prefix) / "lib64" / "libgradus.so"))
        for name in ("gradusVersion", "gradusGetOption", "aclGetRecentErrMsg"):
            getattr(self.c, name).restype = c_char_p
        self.c.aclCreateTensor.restype = c_void_p
        self.c.aclCreateTensor.argtypes = [POINTER(c_int64), c_uint64, c_int, POINTER(c_int64), c_int64, c_int,
                                           POINTER(c_int64), c_uint64, c_void_p]
        self.c.aclDestroyTensor.argtypes = [c_void_p]
        self.c.aclCreateIntArray.restype = c_void_p
        self.c.aclCreateIntArray.argtypes = [POINTER(c_int64), c_uint64]
        self.c.aclDestroyIntArray.argtypes = [c_void_p]
        self.c.gradusPrepare.argtypes = [c_char_p, POINTER(Arg), c_uint64, POINTER(c_uint64), POINTER(c_void_p)]
        self.c.gradusLaunch.argtypes = [c_void_p, c_uint64, c_void_p, c_void_p]
        self.c.aclSetAclOpExecutorRepeatable.argtypes = [c_void_p]
        self.c.aclDestroyAclOpExecutor.argtypes = [c_void_p]
        self.c.aclrtSynchronizeStream.argtypes = [c_void_p]
        self.check(self.c.aclInit(None), "aclInit")
        self.check(self.c.aclrtSetDevice(c_int32(0)), "aclrtSetDevice")
        self.set("num_threads", threads)
        self.set("limits", "off")
        self.set("memory", "any")  # the tensors are PyTorch's: not device memory, and read in place

    def check(self, code, what):
        if code != 0:
            message = self.c.aclGetRecentErrMsg()
            raise RuntimeError(f"{what} returned {code}: {message.decode() if message else 'no message'}")

    def set(self, name, value):
        self.check(self.c.gradusSetOption(name.encode(), str(value).encode()), f"option {name}")

    def option(self, name):
        return self.c.gradusGetOption(name.encode()).decode()

    @property
    def version(self):
        return self.c.gradusVersion().decode()

    def prepare(self, op, /, **arguments):
        """Phase one, by the names of the C prototype; calling the result is phase two and the wait for its end."""
        return Prepared(self, op, arguments)


class Prepared:
    def __init__(self, library, op, arguments):
        self.library, self.op = library, op
        self.arguments = arguments  # keeps the tensors alive
        self.destroy = []
        args = (Arg * len(arguments))(*(self._arg(name, value) for name, value in arguments.items()))
        size, self.executor = c_uint64(), c_void_p()
        library.check(library.c.gradusPrepare(op.encode(), args, len(args), byref(size), byref(self.executor)), op)
        library.check(library.c.aclSetAclOpExecutorRepeatable(self.executor), op)
        self.size = size.value
        # Written to, because the first touch of a page costs more than any operator.
        self.workspace = torch.full((self.size + 511,), 1, dtype=torch.uint8) if self.size else None
        self.address = -(-self.workspace.data_ptr() // 512) * 512 if self.size else None

    def _arg(self, name, value):
        if isinstance(value, torch.Tensor):
            longs = c_int64 * max(1, value.dim())
            shape, stride = longs(*value.shape), longs(*value.stride())
            storage = c_int64(value.untyped_storage().nbytes() // value.element_size())
            handle = self.library.c.aclCreateTensor(
                shape, value.dim(), DTYPES[value.dtype], stride, value.storage_offset(), FORMAT_ND, byref(storage), 1,
                value.untyped_storage().data_ptr())
            self.destroy.append((self.library.c.aclDestroyTensor, handle))
            return Arg(name.encode(), TENSOR, Value(tensor=handle))
        if isinstance(value, (list, tuple)):
            handle = self.library.c.aclCreateIntArray((c_int64 * len(value))(*value), len(value))
            self.destroy.append((self.library.c.aclDestroyIntArray, handle))
            return Arg(name.encode(), INT_ARRAY, Value(array=handle))
        if isinstance(value, bool):
            return Arg(name.encode(), BOOL, Value(b=value))
        if isinstance(value, int):
            return Arg(name.encode(), INT, Value(i=value))
        if isinstance(value, float):
            return Arg(name.encode(), DOUBLE, Value(d=value))
        return Arg(name.encode(), STRING, Value(s=value.encode()))

    def __call__(self):
        c = self.library.c
        self.library.check(c.gradusLaunch(self.address, self.size, self.executor, None), self.op)
        self.library.check(c.aclrtSynchronizeStream(None), self.op)

    def __del__(self):
        if getattr(self, "executor", None):
            self.library.c.aclDestroyAclOpExecutor(self.executor)
        for function, handle in self.destroy:
            function(handle)
