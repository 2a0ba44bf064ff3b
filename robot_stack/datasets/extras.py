"""Access to packages that only exchange with other programs needs; they come with the extras `export` and `rerun`."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from types import ModuleType

from robot_stack.types.errors import StoreError

FORMATS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "rerun": ("rerun", ("rerun",)),
    "mcap": ("export", ("mcap", "mcap_ros2", "zstandard")),
    "lerobot": ("export", ("pyarrow", "av")),
}
"""Format -> the extra it comes with, and the modules that write it."""


def remedies() -> dict[str, str]:
    """Return for each format that cannot be written here the command that changes this."""
    return {
        name: install(extra)
        for name, (extra, modules) in FORMATS.items()
        if any(importlib.util.find_spec(module) is None for module in modules)
    }


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'robot-stack[{extra}]'"


def need(module: str, package: str, extra: str = "export") -> ModuleType:
    """Import a module of an optional package.

    Raises:
        StoreError: If it is not installed; the message says how to get it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise StoreError(
            f"package {package} is missing, must be installed to read or write this format; {install(extra)}"
        ) from error
