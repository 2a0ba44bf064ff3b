"""Names that arrive over the network and become paths."""

from __future__ import annotations

import re

from robot_stack.types.errors import SpecError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}(?<!\.)")


def check_name(name: str, what: str) -> str:
    """Return `name` if it is safe as a file name.

    Raises:
        SpecError: If it is not.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SpecError(
            f"{what} is {str(name)[:200]!r}, must be 1 to 128 letters, digits, '.', '_' or '-', starting with a letter "
            "or digit and not ending in '.'; choose another"
        )
    return name
