"""One page writes, the others watch."""

from __future__ import annotations

import pytest

from robot_stack.console.messages import PageError
from robot_stack.console.operator_lock import KEPT_NS, PRESENT_NS, OperatorLock

S = 1_000_000_000


def test_the_first_page_sits_down_and_the_second_watches():
    seats = OperatorLock()
    seats.join("a", 0)
    seats.join("b", 1)
    assert (seats.writer, seats.pages) == ("a", 2)
    seats.check_writer("a", 2)
    with pytest.raises(PageError, match="this page watches"):
        seats.check_writer("b", 2)


def test_a_reload_keeps_the_desk_and_a_page_that_stays_away_loses_it():
    seats = OperatorLock()
    seats.join("a", 0)
    seats.join("b", 0)
    seats.leave("a", 10 * S)
    with pytest.raises(PageError):
        seats.check_writer("b", 10 * S + KEPT_NS)
    seats.join("a", 10 * S + KEPT_NS)
    assert seats.writer == "a"
    seats.leave("a", 20 * S)
    seats.check_writer("b", 20 * S + KEPT_NS + 1)
    assert seats.writer == "b"


def test_a_page_that_has_closed_meanwhile_does_not_sit_down():
    seats = OperatorLock()
    seats.join("a", 0)
    seats.leave("a", S)
    for ask in (lambda: seats.check_writer("a", 20 * S), lambda: seats.sit("a", 20 * S, driving=False)):
        with pytest.raises(PageError, match="this page is closed"):
            ask()
    seats.join("b", 20 * S)
    assert seats.writer == "b"


def test_the_desk_can_be_taken_but_not_from_a_hand_that_drives():
    seats = OperatorLock()
    seats.join("a", 0)
    seats.join("b", 0)
    with pytest.raises(PageError, match="drives the arm"):
        seats.sit("b", S, driving=True)
    assert seats.writer == "a"
    seats.sit("b", S, driving=False)
    assert seats.writer == "b"


def test_somebody_is_there_only_while_the_page_says_that_it_is_seen():
    seats = OperatorLock()
    assert not seats.attended(0)
    seats.join("a", 0)
    assert seats.attended(PRESENT_NS)
    assert not seats.attended(PRESENT_NS + 1)
    seats.heard("a", 3 * S)
    assert seats.attended(3 * S + PRESENT_NS)
    seats.leave("a", 3 * S)
    assert not seats.attended(3 * S)


def test_a_watcher_in_view_is_nobody_at_the_desk():
    seats = OperatorLock()
    seats.join("a", 0)
    seats.join("b", 0)
    seats.heard("b", 10 * S)
    assert not seats.attended(10 * S)
