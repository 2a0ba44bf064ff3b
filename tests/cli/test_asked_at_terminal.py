"""What was typed before a question is no answer to it: an Enter that was pressed early does nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

import pytest

from robot_stack.cli.cell import calibrate, doctor, measuring
from robot_stack.cli.cell.own_cell import Enter
from robot_stack.config.resolve import load_run
from tests.nodes.cell_rig import wait_until


class Terminal:
    """A terminal and the keys that are pressed at it."""

    def __init__(self) -> None:
        self._keys, own = os.openpty()
        self.stream: TextIO = os.fdopen(own)

    def press(self, keys: str = "\n") -> None:
        os.write(self._keys, keys.encode())

    def close(self) -> None:
        self.stream.close()
        os.close(self._keys)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal at which Enter was pressed twice before anything was asked."""
    made = Terminal()
    monkeypatch.setattr(sys, "stdin", made.stream)
    made.press("\n\n")
    yield made
    made.close()


class Here:
    """A listener that looks once, at a cell that takes every request."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.node = SimpleNamespace(stops=[], stop_pressed_ns=None, arms={"fr3": SimpleNamespace()}, mode=None)

    def listen(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        self.node.stops.append((0, True))
        return until()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    made = Here()
    module = SimpleNamespace(request=lambda _, name: made.asked.append(name) or "")
    monkeypatch.setitem(sys.modules, "robot_stack.nodes.tools.doctor", module)
    return made


def test_what_was_typed_before_a_question_is_no_answer_and_what_comes_after_is(terminal: Terminal) -> None:
    enter = Enter.on_terminal()
    assert enter is not None
    enter.ask("press Enter")
    assert not enter.pressed()
    terminal.press()
    wait_until(enter.pressed, 5, "the key")
    assert not enter.pressed()


def test_nothing_is_armed_by_an_enter_that_was_pressed_before(terminal: Terminal, here: Here) -> None:
    refusal = doctor._begin_motion(here, lambda: "", Enter.on_terminal())
    assert refusal == "nobody pressed Enter; run it again"
    assert here.asked == []


def test_no_axis_and_no_stop_is_skipped_by_an_enter_that_was_pressed_before(
    terminal: Terminal, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[bool] = []
    monkeypatch.setattr(here, "listen", lambda seconds, until: answers.append(until()) or answers[-1])
    enter = Enter.on_terminal()
    doctor._axes(load_run("peg_insert").arms["fr3"], here, enter)
    terminal.press()
    doctor._estop(here, enter)
    assert answers == [False, False]


def test_no_stop_is_cleared_by_an_enter_that_was_pressed_while_it_was_not_released(
    terminal: Terminal, here: Here
) -> None:
    doctor._estop(here, Enter.on_terminal())
    assert here.asked == []


class TimeIsUpError(Exception):
    """End of a wait for a key that nobody presses."""


def test_no_file_is_written_by_an_enter_that_was_pressed_before(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(seconds: float) -> None:
        raise TimeIsUpError

    monkeypatch.setattr(calibrate.time, "sleep", end)
    with pytest.raises(TimeIsUpError):
        calibrate._agreed(Path("cells/sim.yaml"))


def test_the_arm_is_waited_for_in_spite_of_an_enter_that_was_pressed_before(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[object] = []
    monkeypatch.setitem(
        sys.modules, "robot_stack.nodes.tools.onlooker", SimpleNamespace(hand_over=lambda here: handed.append(here))
    )
    ended = iter(["", "the robot ended"])
    look = measuring._move_the_arm(SimpleNamespace(seconds=60.0), "move the arm")
    look(SimpleNamespace(listen=lambda seconds: None), lambda: next(ended))
    assert len(handed) == 1
