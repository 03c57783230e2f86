"""python -m gradus.torch_npu script.py [arguments], or -m module [arguments]: a script for Ascend, on this CPU."""

import runpy
import sys
from pathlib import Path


def main() -> None:
    arguments = sys.argv[1:]
    module = arguments[:1] == ["-m"]
    if module:
        del arguments[0]
    if not arguments or arguments[0].startswith("-"):
        sys.exit(f"usage: {__doc__}")
    import gradus.torch_npu.install  # noqa: F401

    sys.argv = arguments
    if module:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
