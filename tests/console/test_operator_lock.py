"""One page writes, the others watch."""

from __future__ import annotations

import pytest

from robot_stack.console.messages import PageError
from robot_stack.console.operator_lock import KEPT_NS, PRESENT_NS, OperatorLock

S = 1_000_000_000


def test_the_first_page_sits_down_and_the_second_watches():
    lock = OperatorLock()
    lock.join("a", 0)
    lock.join("b", 1)
    assert (lock.writer, lock.pages) == ("a", 2)
    lock.check_writer("a", 2)
    with pytest.raises(PageError, match="this page watches"):
        lock.check_writer("b", 2)


def test_a_reload_keeps_the_desk_and_a_page_that_stays_away_loses_it():
    lock = OperatorLock()
    lock.join("a", 0)
    lock.join("b", 0)
    lock.leave("a", 10 * S)
    with pytest.raises(PageError):
        lock.check_writer("b", 10 * S + KEPT_NS)
    lock.join("a", 10 * S + KEPT_NS)
    assert lock.writer == "a"
    lock.leave("a", 20 * S)
    lock.check_writer("b", 20 * S + KEPT_NS + 1)
    assert lock.writer == "b"


def test_a_page_that_has_closed_meanwhile_does_not_sit_down():
    lock = OperatorLock()
    lock.join("a", 0)
    lock.leave("a", S)
    for ask in (lambda: lock.check_writer("a", 20 * S), lambda: lock.sit("a", 20 * S, driving=False)):
        with pytest.raises(PageError, match="this page is closed"):
            ask()
    lock.join("b", 20 * S)
    assert lock.writer == "b"


def test_the_desk_can_be_taken_but_not_from_a_hand_that_drives():
    lock = OperatorLock()
    lock.join("a", 0)
    lock.join("b", 0)
    with pytest.raises(PageError, match="drives the arm"):
        lock.sit("b", S, driving=True)
    assert lock.writer == "a"
    lock.sit("b", S, driving=False)
    assert lock.writer == "b"


def test_somebody_is_there_only_while_the_page_says_that_it_is_seen():
    lock = OperatorLock()
    assert not lock.attended(0)
    lock.join("a", 0)
    assert lock.attended(PRESENT_NS)
    assert not lock.attended(PRESENT_NS + 1)
    lock.heard("a", 3 * S)
    assert lock.attended(3 * S + PRESENT_NS)
    lock.leave("a", 3 * S)
    assert not lock.attended(3 * S)


def test_a_watcher_in_view_is_nobody_at_the_desk():
    lock = OperatorLock()
    lock.join("a", 0)
    lock.join("b", 0)
    lock.heard("b", 10 * S)
    assert not lock.attended(10 * S)
