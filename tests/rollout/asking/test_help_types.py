"""A request for help as text on a topic: there and back, and what is no request."""

from __future__ import annotations

import pytest

from robot_stack.types.errors import SpecError
from robot_stack.types.help import HelpKind, HelpReason, HelpRequest, Meanwhile


@pytest.mark.parametrize("meanwhile", list(Meanwhile))
@pytest.mark.parametrize("kind", list(HelpKind))
def test_a_request_comes_back_as_it_was_sent(kind: HelpKind, meanwhile: Meanwhile) -> None:
    request = HelpRequest(reason=HelpReason(kind=kind, text="a: b, c hold: d"), meanwhile=meanwhile)
    assert HelpRequest.from_text(request.to_text()) == request


def test_nothing_is_no_request() -> None:
    assert HelpRequest.from_text("") is None


@pytest.mark.parametrize(
    "text", ["boredom: x", "stall", "stall: ", " hold: x", "stall  hold: x", "stall : x", "stall nap: x", "STALL: x"]
)
def test_what_cannot_be_read_is_refused_in_words(text: str) -> None:
    with pytest.raises(SpecError, match=r"help request is .*, must .*; update the sender"):
        HelpRequest.from_text(text)
