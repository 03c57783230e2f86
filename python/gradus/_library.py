"""libgradus.so through ctypes: where it is, what is called in it, and every operator by its name."""

from __future__ import annotations

import ctypes
import functools
import json
import operator
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int, c_int32, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from ._arrays import Refusal, View, view_of

_NAME = "libgradus.so"
_PARAM_INVALID = 161002  # ACLNN_ERR_PARAM_INVALID
_FORMAT_ND = 2
_TENSOR, _INT_ARRAY, _INT, _DOUBLE, _BOOL, _STRING = range(6)  # gradusKind


class Error(RuntimeError):
    """A call that was refused or failed: `code` is aclnn's, the text names argument, got and wanted."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message


class _Value(ctypes.Union):
    _fields_ = [("tensor", c_void_p), ("array", c_void_p), ("i", c_int64), ("d", c_double), ("b", c_bool),
                ("s", c_char_p)]


class _Arg(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("kind", c_int), ("value", _Value)]


def _candidates() -> Iterator[str]:
    """Paths to try in this order; the last one is left to the loader."""
    yield str(Path(__file__).parent / "lib" / _NAME)
    for variable in ("GRADUS_HOME", "ASCEND_HOME_PATH"):
        if home := os.environ.get(variable):
            for folder in ("lib64", "lib", "."):
                yield str(Path(home) / folder / _NAME)
    yield _NAME


def _declare(c: ctypes.CDLL) -> None:
    dims = POINTER(c_int64)
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "gradusVersion": (c_char_p, []),
        "gradusCatalogue": (c_char_p, []),
        "gradusSetThreadOption": (c_int, [c_char_p, c_char_p]),
        "gradusRun": (c_int32, [c_char_p, POINTER(_Arg), c_uint64]),
        "aclGetRecentErrMsg": (c_char_p, []),
        "aclCreateTensor": (c_void_p, [dims, c_uint64, c_int, dims, c_int64, c_int, dims, c_uint64, c_void_p]),
        "aclDestroyTensor": (c_int32, [c_void_p]),
        "aclCreateIntArray": (c_void_p, [dims, c_uint64]),
        "aclDestroyIntArray": (c_int32, [c_void_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(c, name)
        function.restype, function.argtypes = result, arguments


def _load() -> ctypes.CDLL:
    tried = []
    for path in _candidates():
        if path != _NAME and not os.path.exists(path):
            continue
        try:
            c = ctypes.CDLL(path)
            _declare(c)
            return c
        except (OSError, AttributeError) as error:  # not a library; or one that is older than this package
            tried.append(str(error))
    raise ImportError(f"gradus: no usable {_NAME}: looked beside the package, in GRADUS_HOME, ASCEND_HOME_PATH and "
                      f"where the loader looks. Install the wheel gradus-ops, or set GRADUS_HOME to the prefix of "
                      f"./build.sh install. ({'; '.join(tried)})")


_c = _load()


def _text(value: bytes | None) -> str:
    return value.decode("utf-8", "replace") if value else ""


def _recent(code: int) -> Error:
    return Error(code, _text(_c.aclGetRecentErrMsg()) or f"error {code}")


def version() -> str:
    return _text(_c.gradusVersion())


def catalogue() -> list[dict[str, Any]]:
    """All operators: name, family, formula, and the arguments in C order: kind, dtypes, shape, limits (gradus.h)."""
    operators: list[dict[str, Any]] = json.loads(_text(_c.gradusCatalogue()))
    return operators


@functools.cache
def _kinds() -> dict[str, dict[str, tuple[str, bool]]]:
    """Of every operator, the kind of every argument and whether it is an output."""
    kinds = {op["name"]: {a["name"]: (a["kind"], a["direction"] == "output") for a in op["arguments"]}
             for op in catalogue()}
    # one of our own, which the catalogue does not list
    names = ("grad", "input", "weight", "target", "logitsMaxOut", "sumExpLogitsOut", "predictedLogitsOut",
             "inputGradOut", "weightGradOut")
    kinds["LinearCrossEntropyWithGrad"] = {name: ("tensor", name.endswith("Out")) for name in names}
    return kinds


class _Mine(threading.local):
    """What options() has set in this thread, so that leaving one restores what the one around it said."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}


_mine = _Mine()


def _set_option(name: str, value: str | None) -> None:
    code = _c.gradusSetThreadOption(name.encode(), None if value is None else value.encode())
    if code != 0:
        raise _recent(code)
    if value is None:
        _mine.values.pop(name, None)
    else:
        _mine.values[name] = value


@contextmanager
def options(**values: str | int) -> Iterator[None]:
    """Options of gradus.h for this thread, as long as the block lasts: options(precision="golden", num_threads=1)."""
    with ExitStack() as undo:
        for name, value in values.items():
            before = _mine.values.get(name)
            _set_option(name, str(value))
            undo.callback(_set_option, name, before)
        yield


def _longs(values: tuple[int, ...]) -> ctypes.Array[c_int64]:
    return (c_int64 * max(1, len(values)))(*values)


def _tensor(undo: ExitStack, view: View) -> _Value:
    rank = len(view.shape)
    handle = _c.aclCreateTensor(_longs(view.shape), rank, view.dtype, _longs(view.strides), 0, _FORMAT_ND,
                                byref(c_int64(view.extent)), 1, view.address)
    if not handle:
        raise _recent(_PARAM_INVALID)
    undo.callback(_c.aclDestroyTensor, handle)
    return _Value(tensor=handle)


def _int(value: Any) -> int:
    number = operator.index(value)
    if not -2**63 <= number < 2**63:
        raise Refusal(f"{number}, expected an integer of 64 bits")
    return number


def _int_array(undo: ExitStack, values: Any) -> _Value:
    numbers = tuple(map(_int, values))
    handle = _c.aclCreateIntArray(_longs(numbers), len(numbers))
    if not handle:
        raise _recent(_PARAM_INVALID)
    undo.callback(_c.aclDestroyIntArray, handle)
    return _Value(array=handle)


def _string(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__}, expected a string")
    return value.encode()


# By the catalogue's word for a kind: its number, and how a Python value becomes a C one.
_MAKE: dict[str, tuple[int, Callable[[ExitStack, Any], _Value]]] = {
    "int_array": (_INT_ARRAY, _int_array),
    "int": (_INT, lambda _, value: _Value(i=_int(value))),
    "double": (_DOUBLE, lambda _, value: _Value(d=float(value))),
    "bool": (_BOOL, lambda _, value: _Value(b=bool(value))),
    "string": (_STRING, lambda _, value: _Value(s=_string(value))),
}


def _arg(undo: ExitStack, name: str, kind: str | None, is_output: bool, value: Any) -> _Arg:
    if kind is None:  # unknown: the library says so, and which ones there are
        return _Arg(name.encode(), _INT, _Value(i=0))
    if kind == "tensor":
        view = value if isinstance(value, View) else view_of(value)
        if is_output and view.readonly:
            raise Refusal("a read-only array, expected one that can be written to (x.copy() is one)")
        undo.callback(lambda kept: None, view)  # keeps the memory alive until the call is over
        return _Arg(name.encode(), _TENSOR, _tensor(undo, view))
    number, make = _MAKE[kind]
    return _Arg(name.encode(), number, make(undo, value))


def told(op: str, name: str, make: Callable[..., Any], *values: Any) -> Any:
    """make(*values); a refusal on the way names operator and argument, as the library's own do."""
    try:
        return make(*values)
    except Refusal as refusal:
        raise Error(_PARAM_INVALID, f"aclnn{op}: {name}: {refusal}") from None
    except (TypeError, ValueError, BufferError) as error:  # BufferError: how DLPack says no
        kind = next(kind for kind in (TypeError, ValueError, BufferError) if isinstance(error, kind))
        raise kind(f"aclnn{op}: {name}: {error}") from None


def call(op: str, /, **arguments: Any) -> None:
    """Runs the operator aclnn<op> on arguments named as in C; outputs are written in place.

        gradus.call("SwiGluGrad", yGrad=g, x=x, dim=-1, out=dx)

    Tensors are NumPy arrays or anything on the CPU with __dlpack__, and are never copied. None is an argument left out.
    """
    kinds = _kinds().get(op, {})
    with ExitStack() as undo:
        args = []
        for name, value in arguments.items() if kinds else ():
            if value is None:
                continue
            kind, is_output = kinds.get(name, (None, False))
            args.append(told(op, name, _arg, undo, name, kind, is_output, value))
        code = _c.gradusRun(op.encode(), (_Arg * len(args))(*args), len(args))
        if code != 0:
            raise _recent(code)
