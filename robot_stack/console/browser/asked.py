"""Requests that the browser's page may send with a body, one JSON object each; nothing else gets past here."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import Field, ValidationError

from robot_stack.console.messages import Count, EpisodeId, PageError, PageMessage
from robot_stack.types.event import Verdict
from robot_stack.types.preferences import Further

MAX_TRIMS = 500


class Relabel(PageMessage):
    """A verdict on an episode."""

    episode: EpisodeId
    verdict: Verdict


class Mark(PageMessage):
    """A stage that begins at a frame of an episode, or no longer does."""

    episode: EpisodeId
    stage: Count
    frame: Count
    removed: bool = False


class Place(PageMessage):
    """A frame of an episode."""

    episode: EpisodeId
    frame: Count


class Prefer(PageMessage):
    """An answer to which of two frames got further, by the operator of a page."""

    first: Place
    second: Place
    further: Further
    session: Annotated[str, Field(pattern=r"^[0-9a-z-]{8,64}$")]


class Nothing(PageMessage):
    """A request that needs no more words."""


class Trim(PageMessage):
    """The frames that stay of one episode, first and last, counted from 0."""

    first: Count
    last: Count


class Trims(PageMessage):
    """Episodes to be trimmed in a new dataset."""

    trims: Annotated[dict[EpisodeId, Trim], Field(min_length=1, max_length=MAX_TRIMS)]


class Export(PageMessage):
    """An episode to be written for another program."""

    episode: EpisodeId
    format: Literal["rerun", "mcap", "lerobot"]


Asked = TypeVar("Asked", bound=PageMessage)


def asked(kind: type[Asked], raw: bytes) -> Asked:
    """Parse the body of a request.

    Raises:
        PageError: If it is none of this kind; the first thing that is wrong is named.
    """
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:80] or "request"
        raise PageError(f"{where} is not as it must be: {first['msg']}; reload the page") from error
