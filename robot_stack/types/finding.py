"""The finding of a check, with its severity: for the doctor, the checks of datasets and diagnostics of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARN = "warn"
    """Look at it: it works, or may be right."""
    FAIL = "FAIL"
    """To be mended: it does not work, or teaches something that did not happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The finding of one check.

    Attributes:
        level: How bad it is.
        check: What was looked at, one word, as in the documentation.
        text: What was measured; if it is not ok, what it must be and what to do.
    """

    level: Level
    check: str
    text: str
