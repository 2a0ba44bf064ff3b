"""The mistakes of a configuration, said as `file:line:col: key: message (got X); what to do`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from robot_stack.config.files.located import Mark
from robot_stack.types.errors import ConfigError

LONGEST_SHOWN = 60
LONGEST_PLACE = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One mistake in a configuration: where it is, and what to do.

    Attributes:
        key: Dotted key from the top of the file, "" for the file itself.
        text: What is wrong, what was found, what to do.
    """

    mark: Mark
    key: str = ""
    text: str

    def __str__(self) -> str:
        where = (cut(str(self.mark)), cut(self.key))
        return printable(": ".join(part for part in (*where, self.text) if part))


def raise_if_any(mistakes: Iterable[Mistake]) -> None:
    """Raise ConfigError with one line per mistake, in the order of the files; do nothing without mistakes."""
    by_place = sorted(mistakes, key=lambda m: (m.mark.source, m.mark.line, m.mark.column, -len(m.key), m.key))
    said: list[Mistake] = []
    for mistake in by_place:
        if not any(_same(mistake, other) for other in said):
            said.append(mistake)
    if said:
        raise ConfigError("\n".join(map(str, said)))


def _same(one: Mistake, fuller: Mistake) -> bool:
    """Return whether `fuller` says it already: a camera's part of a cell is checked there and again with its model."""
    keys_match = one.key == fuller.key or fuller.key.endswith(f".{one.key}")
    return keys_match and (one.mark, one.text) == (fuller.mark, fuller.text)


def shown(value: object) -> str:
    """Return a value as it appears in a message: short, on one line."""
    if isinstance(value, dict):
        return "a mapping"
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def printable(text: str) -> str:
    """Return a text as a terminal may have it: what is no printable character is escaped."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def cut(place: str) -> str:
    """Return a key or an argument of the command line, cut where nobody reads on."""
    return place if len(place) <= LONGEST_PLACE else f"{place[:LONGEST_PLACE]}..."


def suggestion(name: str, legal: Iterable[str]) -> str | None:
    """Return the legal name that `name` was probably meant to be, or None."""
    matches = get_close_matches(name, list(legal), n=1, cutoff=0.6)
    return matches[0] if matches else None


def hint(name: str, legal: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`, or the legal names where none is near."""
    names = sorted(legal)
    near = suggestion(name, names)
    if near is not None:
        return f"; did you mean '{near}'?"
    return f"; choose from {', '.join(names)}" if names else "; remove it"
