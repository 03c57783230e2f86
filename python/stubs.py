#!/usr/bin/env python3
"""Writes gradus/__init__.pyi from the catalogue and the signatures of the functions.

    GRADUS_HOME=build/release/src python/stubs.py            # writes it
    GRADUS_HOME=build/release/src python/stubs.py --check    # fails where the file is not what would be written
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradus  # the one beside this file

FILE = Path(__file__).parent / "gradus" / "__init__.pyi"
HEAD = '''# Made by stubs.py from the catalogue and the signatures of the functions: change those, not this.
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, overload

from numpy.typing import NDArray

class _Tensor(Protocol):  # a NumPy array, a PyTorch tensor on the CPU, …
    def __dlpack__(self) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, Any]: ...

_Out = TypeVar("_Out", bound=_Tensor)

__version__: str
__all__ = {names}

class Error(RuntimeError):
    code: int
    message: str
    def __init__(self, code: int, message: str) -> None: ...

def catalogue() -> list[dict[str, Any]]: ...
def options(**values: str | int) -> AbstractContextManager[None]: ...
'''
NDARRAY = "NDArray[Any]"
KINDS = {"tensor": "_Tensor", "int_array": "Iterable[int]", "int": "int", "double": "float", "bool": "bool",
         "string": "str"}


def define(name: str, parameters: list[str], result: str) -> str:
    """One line, or several that are broken between parameters."""
    line = f"def {name}({', '.join(parameters)}) -> {result}: ..."
    if len(line) <= 120:
        return line
    glued = ", ".join(parameter.replace(" ", chr(1)) for parameter in parameters)
    inside = textwrap.fill(glued, 120, initial_indent=" " * 4, subsequent_indent=" " * 4).replace(chr(1), " ")
    return f"def {name}(\n{inside}\n) -> {result}: ..."


def typed(annotation: str, tensor: str) -> str:
    return re.sub(r"\bArray\b", tensor, annotation)


def parameters_of(function: Callable[..., Any], out: str | None) -> list[str]:
    """As inspect gives them; `out` is the type that the parameter of that name gets, if there is one."""
    result = []
    keyword_only = False
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            result.append("*")
        kind, default = typed(p.annotation, "_Tensor"), "" if p.default is p.empty else f" = {p.default!r}"
        if p.name == "out" and out is not None:
            kind, default = out, " = None" if out == "None" else ""
        result.append(f"{p.name}: {kind}{default}")
    return result


def function_stub(name: str) -> str:
    function = getattr(gradus, name)
    signature = inspect.signature(function)
    result = typed(signature.return_annotation, NDARRAY)
    out = signature.parameters.get("out")
    if out is None or out.kind is not out.KEYWORD_ONLY:
        return define(name, parameters_of(function, None), result)
    return "\n".join(["@overload", define(name, parameters_of(function, "None"), result),
                      "@overload", define(name, parameters_of(function, "_Out"), "_Out")])


def argument(a: dict[str, Any]) -> str:
    kind = KINDS[a["kind"]]
    if a["optional"]:
        return f"{a['name']}: {kind} | None = ..."
    return f"{a['name']}: {kind}" + (" = ..." if "default" in a else "")


def call_stub(op: dict[str, Any]) -> str:
    arguments = [argument(a) for a in op["arguments"]]
    return "@overload\n" + define("call", [f'op: Literal["{op["name"]}"]', "/", "*", *arguments], "None")


def text() -> str:
    names = textwrap.fill(repr(gradus.__all__).replace("'", '"'), 110, subsequent_indent=" " * 11).lstrip()
    fields = [f"    {name}: {typed(kind.__forward_arg__, NDARRAY)}"
              for name, kind in gradus.OnlineMaxSum.__annotations__.items()]
    functions = [name for name in gradus.__all__ if getattr(gradus, name).__module__ == "gradus._operators"
                 and inspect.isfunction(getattr(gradus, name))]
    parts = [HEAD.format(names=names), *map(call_stub, gradus.catalogue()), "\nclass OnlineMaxSum(NamedTuple):",
             *fields, "", *map(function_stub, functions)]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if FILE.read_text(encoding="utf-8") == text() else f"{FILE} is not what stubs.py writes: run it")
    FILE.write_text(text(), encoding="utf-8")
