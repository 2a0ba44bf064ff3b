"""Access to packages that only exchange with other programs needs; they come with the extra `export`."""

from __future__ import annotations

import importlib
from types import ModuleType

from robot_stack.types.errors import StoreError


def need(module: str, package: str) -> ModuleType:
    """Import a module of an optional package.

    Raises:
        StoreError: If it is not installed; the message says how to get it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise StoreError(
            f"package {package} is missing, must be installed to read or write this format; "
            "pip install 'robot-stack[export]'"
        ) from error
