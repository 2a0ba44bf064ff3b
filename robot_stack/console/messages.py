"""Messages that a page may send, one JSON object each; nothing else gets past here. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from robot_stack.teleop.page import PRESSED
from robot_stack.types.errors import StackError
from robot_stack.types.event import Verdict
from robot_stack.types.robot import EVENTS

MAX_CHARS = 4096
MAX_NOTE_CHARS = 500
CLEAR_STOP = "clear_stop"
PRESSES = (*(event for event in EVENTS if event != "next_arm"), CLEAR_STOP)
"""Keys and buttons of a page. The next arm is a matter of the hand that drives: see `Move`."""


class PageError(StackError):
    """A page asked for what cannot be; the sentence is shown on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """First message of a page, with which it asks to come in.

    Attributes:
        token: As printed with the address; "" where none is asked for.
        page: Name of the page, its own over reloads.
        build: Digest of the files it was loaded from.
    """

    token: str
    page: str
    build: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Press:
    """A key or button out of `PRESSES`."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """A verdict on an episode of the list."""

    episode: str
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """Wish to take the newest verdict back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A note on an episode of the list."""

    episode: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sit:
    """Wish to take the desk, from which one page at a time writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """State of the hand at the page, sent many times a second.

    Attributes:
        t_ms: The page's own clock.
        axes: x, y, z, rx, ry, rz in [-1, 1]: forward, left, up, and the turns about them.
        pressed: Held or tapped, out of `PRESSED`.
        live: False once the page is no longer in view, or its window has lost the keys.
    """

    t_ms: float
    axes: tuple[float, ...]
    pressed: frozenset[str]
    live: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Acknowledgement of a page: the newest numbers of state and image that are on its screen."""

    state: int
    image: int


Message = Hello | Press | Say | Undo | Write | Sit | Move | Seen


def parse(raw: str | bytes) -> Message:
    """Return the message in what a page sent.

    Raises:
        PageError: If it is none.
    """
    if isinstance(raw, bytes):
        raise PageError(f"message is {len(raw)} bytes of data, must be text; reload the page")
    if len(raw) > MAX_CHARS:
        raise PageError(f"message has {len(raw)} characters, must have at most {MAX_CHARS}; write less")
    try:
        fields = json.loads(raw, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise PageError(f"message is no JSON ({type(error).__name__}), must be one object; reload the page") from error
    kind = fields.pop("k", None) if isinstance(fields, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise PageError(f"message is of kind {str(kind)[:40]!r}, must be one of {sorted(_KINDS)}; reload the page")
    made, wanted = _KINDS[kind]
    if set(fields) != set(wanted):
        raise PageError(f"message {kind} has fields {sorted(fields)}, must have {sorted(wanted)}; reload the page")
    return made(**{name: check(fields[name], f"{name} of {kind}") for name, check in wanted.items()})


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _short(value: Any) -> str:
    return repr(value)[:60]


def _text(longest: int) -> Callable[[Any, str], str]:
    def check(value: Any, what: str) -> str:
        if not isinstance(value, str) or len(value) > longest or not value.isprintable():
            raise PageError(
                f"{what} is {_short(value)}, must be printable text of at most {longest} characters; write less"
            )
        return value

    return check


def _one_of(legal: tuple[str, ...]) -> Callable[[Any, str], str]:
    def check(value: Any, what: str) -> str:
        if not isinstance(value, str) or value not in legal:
            raise PageError(f"{what} is {_short(value)}, must be one of {list(legal)}; reload the page")
        return value

    return check


def _verdict(value: Any, what: str) -> Verdict:
    return Verdict(_one_of(tuple(map(str, Verdict)))(value, what))


def _flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise PageError(f"{what} is {_short(value)}, must be true or false; reload the page")
    return value


def _number(low: float, high: float) -> Callable[[Any, str], float]:
    def check(value: Any, what: str) -> float:
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not math.isfinite(value) or not low <= value <= high:
            raise PageError(f"{what} is {_short(value)}, must be a number in [{low:g}, {high:g}]; reload the page")
        return float(value)

    return check


def _count(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise PageError(f"{what} is {_short(value)}, must be a whole number of at least 0; reload the page")
    return value


def _axes(value: Any, what: str) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) != 6:
        raise PageError(f"{what} is {_short(value)}, must be six numbers; reload the page")
    return tuple(_number(-1.0, 1.0)(axis, what) for axis in value)


def _presses(value: Any, what: str) -> frozenset[str]:
    if not isinstance(value, list):
        raise PageError(f"{what} is {_short(value)}, must be a list out of {list(PRESSED)}; reload the page")
    return frozenset(_one_of(PRESSED)(each, what) for each in value)


_KINDS: Mapping[str, tuple[Callable[..., Message], Mapping[str, Callable[[Any, str], Any]]]] = {
    "hello": (Hello, {"token": _text(200), "page": _text(40), "build": _text(80)}),
    "press": (Press, {"what": _one_of(PRESSES)}),
    "say": (Say, {"episode": _text(128), "verdict": _verdict}),
    "undo": (Undo, {}),
    "write": (Write, {"episode": _text(128), "text": _text(MAX_NOTE_CHARS)}),
    "sit": (Sit, {}),
    "move": (
        Move,
        {"t_ms": _number(0.0, 1e15), "axes": _axes, "pressed": _presses, "live": _flag},
    ),
    "seen": (Seen, {"state": _count, "image": _count}),
}
