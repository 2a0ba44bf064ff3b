"""Messages that a page may send, one JSON object each; nothing else gets past here. Pure."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from robot_stack.teleop.page import PRESSED
from robot_stack.types.errors import StackError
from robot_stack.types.event import Verdict
from robot_stack.types.robot import EVENTS

MAX_CHARS = 4096
MAX_NOTE_CHARS = 500
MOST_CAMERAS = 8
"""Of a cell."""
CLEAR_STOP = "clear_stop"
PRESSES = (*(event for event in EVENTS if event != "next_arm"), CLEAR_STOP)
"""Keys and buttons of a page. The next arm is a matter of the hand that drives: see `Move`."""


NOT_WRITTEN = ("Cc", "Cs", "Zl", "Zp")
"""Categories of Unicode whose characters end a line, steer a terminal or are none. Other spaces and joiners are how
some languages are written."""


class PageError(StackError):
    """A page asked for what cannot be; the sentence is shown on it."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise PydanticCustomError("unprintable", "Input should be printable text")
    return text


def _writable(text: str) -> str:
    bad = next((each for each in text if unicodedata.category(each) in NOT_WRITTEN), "")
    if bad:
        raise PydanticCustomError("unwritable", "Input should be one line without {bad}", {"bad": repr(bad)})
    return text


def _out_of(legal: tuple[str, ...]) -> AfterValidator:
    def check(text: str) -> str:
        if text not in legal:
            raise PydanticCustomError("choice", "Input should be one of {legal}", {"legal": list(legal)})
        return text

    return AfterValidator(check)


PRINTABLE = AfterValidator(_printable)
EpisodeId = Annotated[str, Field(max_length=128), PRINTABLE]
Axis = Annotated[float, Field(ge=-1.0, le=1.0)]
Count = Annotated[int, Field(ge=0, lt=2**53)]


class PageMessage(BaseModel):
    """The base of all messages of a page: strict, without unknown fields, NaN or infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Hello(PageMessage):
    """First message of a page, with which it asks to come in.

    Attributes:
        token: As printed with the address; "" where none is asked for.
        page: Name of the page, its own over reloads.
        build: Digest of the files it was loaded from.
    """

    k: Literal["hello"] = "hello"
    token: Annotated[str, Field(max_length=200), PRINTABLE]
    page: Annotated[str, Field(max_length=40), PRINTABLE]
    build: Annotated[str, Field(max_length=80), PRINTABLE]


class TimelyMessage(PageMessage):
    """The base of what is meant only for what the page shows, so that it comes to nothing if it comes late.

    Attributes:
        state: Number of the newest state that was on the page's screen; 0 before there is one.
    """

    state: Count = 0


class Press(TimelyMessage):
    """A key or button out of `PRESSES`; HOLD and STOP are never late.

    Attributes:
        what: Which.
        n: Under this number the page waits to hear that it was taken; 0 for one that it does not wait for.
        episode: Of a verdict, the episode that the button named; "" if there was none on the page.
    """

    k: Literal["press"] = "press"
    what: Annotated[str, _out_of(PRESSES)]
    n: Count = 0
    episode: EpisodeId = ""


class Say(TimelyMessage):
    """A verdict on an episode of the list."""

    k: Literal["say"] = "say"
    episode: EpisodeId
    verdict: Verdict


class Undo(TimelyMessage):
    """Request to take the newest verdict back."""

    k: Literal["undo"] = "undo"


class Write(PageMessage):
    """A note on an episode of the list, meant whenever it comes.

    Attributes:
        episode: Which.
        text: The note.
        n: Under this number the page waits to hear that it is kept, or why not; 0 if it does not wait.
    """

    k: Literal["write"] = "write"
    episode: EpisodeId
    text: Annotated[str, Field(max_length=MAX_NOTE_CHARS), AfterValidator(_writable)]
    n: Count = 0


class Sit(TimelyMessage):
    """Request for the operator lock, which one page at a time holds."""

    k: Literal["sit"] = "sit"


class Move(PageMessage):
    """State of the hand at the page, sent many times a second.

    Attributes:
        t_ms: The page's own clock.
        axes: x, y, z, rx, ry, rz in [-1, 1]: forward, left, up, and the turns about them.
        pressed: Held or tapped, out of `PRESSED`.
        live: False once the page is no longer in view, or its window has lost the keys.
    """

    k: Literal["move"] = "move"
    t_ms: Annotated[float, Field(ge=0.0, le=1e15)]
    axes: tuple[Axis, Axis, Axis, Axis, Axis, Axis]
    pressed: frozenset[Annotated[str, _out_of(PRESSED)]]
    live: bool


class Seen(PageMessage):
    """Acknowledgement of a page.

    Attributes:
        state: Number of the newest state that is on its screen, or that it has heard out of view.
        image: Number of the newest image that is on its screen.
        in_view: False while the page is behind another tab or window, so that nobody looks at it.
    """

    k: Literal["seen"] = "seen"
    state: Count
    image: Count
    in_view: bool = True


class View(PageMessage):
    """The cameras whose whole images a page shows in place of the policy's, by their places in the list."""

    k: Literal["view"] = "view"
    cameras: Annotated[tuple[Annotated[int, Field(ge=0, lt=MOST_CAMERAS)], ...], Field(max_length=MOST_CAMERAS)]


Message = Hello | Press | Say | Undo | Write | Sit | Move | Seen | View
KINDS = [kind.model_fields["k"].default for kind in get_args(Message)]
_MESSAGE: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="k")])


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
        return _MESSAGE.validate_json(raw)
    except ValidationError as error:
        raise PageError(_told(error)) from error


def _told(error: ValidationError) -> str:
    """Return the first thing that is wrong with a message, and what to do, as a sentence."""
    first = error.errors(include_url=False)[0]
    kind, place = first["type"], first["loc"]
    if kind == "json_invalid":
        return f"message is no JSON ({first['ctx']['error']}), must be one object; reload the page"
    if not place:
        return f"message is {repr(first['input'])[:60]}, must be an object with k out of {KINDS}; reload the page"
    what = f"{'.'.join(map(str, place[1:]))} of {place[0]}"
    if kind in ("missing", "extra_forbidden"):
        return f"{what} {'is missing, must' if kind == 'missing' else 'is there, must not'} be there; reload the page"
    rule = first["msg"].partition(" should ")[2]
    advice = {"string_too_long": "write less", "unwritable": "leave that out"}.get(kind, "reload the page")
    return f"{what} is {repr(first['input'])[:60]}, must {rule}; {advice}"
