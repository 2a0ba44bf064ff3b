"""What to do about a value that a model refuses: the clause after the semicolon of a mistake."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

BOOLS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
UNITS = (
    ("_rad_s", "deg/s", math.pi / 180),
    ("_rad", "degrees", math.pi / 180),
    ("_m_s", "mm/s", 1e-3),
    ("_m", "mm", 1e-3),
    ("_s", "ms", 1e-3),
)
"""Ending of a key, a unit that people write there instead of its own, and what that is in its own."""
LEAST_PERCENT = 10
"""A value beyond 1 where a share is asked for is taken for percents from here on."""


def of_bound(loc: Sequence[object], got: object, bounds: Mapping[str, Any]) -> str:
    """Return what to do about a number beyond a bound: another unit is named if the number would fit in it.

    Args:
        loc: Keys and indices that lead to it.
        got: The number.
        bounds: One of ge, gt, le and lt, and its value.
    """
    ((kind, bound),) = bounds.items()
    plain = "lower it" if kind in ("le", "lt") else "raise it"
    if not isinstance(got, int | float):
        return plain
    for unit, factor in _other_units(loc, got, bound):
        meant = got * factor
        if abs(meant) <= abs(bound) < abs(got):
            return f"{plain}, or write {meant:.4g} if {got:g} {unit} are meant"
    return plain


def _other_units(loc: Sequence[object], got: float, bound: float) -> list[tuple[str, float]]:
    key = next((part for part in reversed(loc) if isinstance(part, str)), "")
    for ending, unit, factor in UNITS:
        if key.endswith(ending):
            return [(unit, factor)]
    return [("percent", 1e-2)] if bound == 1 and got >= LEAST_PERCENT else []


def of_number(got: object, whole: bool) -> str:
    """Return what to do about a value that is no number, or no whole one."""
    plain = "write a whole number" if whole else "write a number"
    if not isinstance(got, str):
        return plain
    if _is_number(got):
        return "remove the quotes"
    if re.fullmatch(r"[-+]?\d+,\d+", got):
        return f"write {got.replace(',', '.')}, with a point"
    if (percent := re.fullmatch(r"([-+]?[\d.]+) ?%", got)) and _is_number(percent[1]):
        return f"write {float(percent[1]) / 100:g} for {got}"
    if re.match(r"[-+]?\.?\d", got):
        return f"{plain} without its unit, which the key names"
    return plain


def of_bool(got: object) -> str:
    """Return what to do about a value that is neither true nor false."""
    meant = BOOLS.get(str(got).lower())
    return f"did you mean '{meant}'?" if meant else "write true or false"


def of_text(got: object) -> str:
    """Return what to do about a value that is no text."""
    return "put it in quotes" if isinstance(got, int | float) else "write a text"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
