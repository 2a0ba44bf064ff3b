"""A disk that takes seconds keeps up what is to be kept on it, and nothing else: no hold, no word of the cell."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

pytest.importorskip("uvicorn", reason="no server on this machine: pip install 'robot-stack[console]'")
pytest.importorskip("websockets", reason="no WebSockets on this machine: pip install 'robot-stack[console]'")

from robot_stack.console.app import MOST_UNSAID
from robot_stack.types.command import Mode
from tests.console.page_rig import FakeCell
from tests.console.slow_disk import WAIT_S
from tests.console.test_page_server import tab


def wait(fits: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not fits():
        assert time.monotonic() < deadline_s, f"{what} not within {WAIT_S:g} s"
        time.sleep(0.01)


def claimed(cell: FakeCell) -> str:
    """An episode of which the model claims success, while the next one runs."""
    name = cell.episode(41)
    cell.ended()
    cell.claim()
    cell.episode(42)
    return name


@pytest.mark.parametrize(
    "word",
    [
        {"k": "say", "verdict": "failure"},
        {"k": "write", "text": "slipped"},
        {"k": "press", "what": "failure"},
    ],
    ids=lambda word: word["k"],
)
def test_hold_stop_and_the_hand_wait_for_no_disk(cell, url, disk, word):
    with ExitStack() as open_pages:
        name = claimed(cell)
        page = open_pages.enter_context(tab(url))
        other = open_pages.enter_context(tab(url, page="b"))
        open_pages.callback(disk.free.set)
        page.shows(lambda now: now["writer"] == "you" and now["pages"] == 2, "the desk")
        page.say(**word, episode=name)
        assert disk.begun.wait(WAIT_S)
        page.say(k="press", what="hold")
        wait(lambda: cell.done.pressed == ["hold"], "the hold of the page itself")
        other.say(k="press", what="stop")
        wait(lambda: cell.done.pressed == ["hold", "stop"], "the stop of another page")
        page.say(k="move", t_ms=1.0, axes=[0.0] * 6, pressed=["deadman"], live=True)
        wait(lambda: cell.done.driving, "the hand")
        cell.mode(Mode.HOLD)
        other.shows(lambda now: now["banner"]["mode"] == "hold", "what the safety process says")
        assert not disk.free.is_set()
        disk.free.set()
        wait(lambda: cell.journal.waiting or cell.journal.notes(), "what was said")


def test_a_hold_needs_no_lock(cell):
    with cell.desk.locked(), ThreadPoolExecutor(1) as presser:
        presser.submit(cell.desk.halt, "hold").result(WAIT_S)
    assert cell.done.pressed == ["hold"]


def test_what_a_page_said_before_it_went_is_kept(cell, url, disk):
    name = claimed(cell)
    with tab(url) as page:
        page.shows(lambda now: now["writer"] == "you", "the desk")
        page.say(k="move", t_ms=1.0, axes=[0.0] * 6, pressed=["deadman"], live=True)
        for text in ("one", "two", "three"):
            page.say(k="write", episode=name, text=text)
        assert disk.begun.wait(WAIT_S)
    try:
        wait(lambda: cell.done.gone, "that the hand has gone, while the disk is waited for")
    finally:
        disk.free.set()
    wait(lambda: cell.journal.notes() == {name: "three"}, "the last of the notes")


def test_more_than_a_few_words_that_wait_are_refused(cell, url, disk):
    name = claimed(cell)
    with tab(url) as page:
        page.shows(lambda now: now["writer"] == "you", "the desk")
        try:
            for number in range(MOST_UNSAID + 2):
                page.say(k="write", episode=name, text=f"{number}")
            page.told(f"{MOST_UNSAID} words of this page wait for the disk, must be fewer")
            page.say(k="press", what="hold")
            wait(lambda: cell.done.pressed == ["hold"], "the hold")
        finally:
            disk.free.set()
