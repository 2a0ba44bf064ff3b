"""Packages that only large models need, imported when one is used."""

from __future__ import annotations

import importlib
from typing import Any

from robot_stack.types.errors import RewardError


def optional_import(name: str) -> Any:
    """Import the module of a name, of a package that may not be installed.

    Raises:
        RewardError: If it cannot be imported, with what to install.
    """
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:  # RuntimeError: transformers with a package that does not fit
        raise RewardError(
            f"large reward models need the package {name}, which cannot be imported here ({error}); "
            "pip install 'robot-stack[vlm]' -c constraints.txt"
        ) from error
