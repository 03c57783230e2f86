"""Every operator by its name. A family is a module here with its own OPERATORS; nothing else knows it."""

import importlib
import pkgutil

OPERATORS = {}
for found in pkgutil.iter_modules(__path__):
    OPERATORS.update(getattr(importlib.import_module(f"{__name__}.{found.name}"), "OPERATORS", {}))
