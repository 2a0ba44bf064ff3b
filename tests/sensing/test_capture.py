"""The capture thread: the newest frame wins, a lost device comes back, nobody waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from robot_stack.sensing.capture import MOST_BAD, BadFrameError, Capture, Frame
from robot_stack.types.errors import RobotError

PATIENCE_S = 20.0


class ScriptedSource:
    """Delivers when told to. `broken` is raised by open and read as long as it is set."""

    def __init__(self) -> None:
        self.broken: Exception | None = None
        self.opened, self.closed, self.asked = 0, 0, 0
        self._frames: list[int] = []
        self._changed = threading.Condition()

    def give(self, *numbers: int) -> None:
        with self._changed:
            self._frames += numbers
            self._changed.notify_all()

    def fail(self, error: Exception | None) -> None:
        with self._changed:
            self.broken = error
            self._changed.notify_all()

    def open(self) -> None:
        self.asked += 1
        if self.broken is not None:
            raise self.broken
        self.opened += 1

    def read(self) -> Frame:
        with self._changed:
            assert self._changed.wait_for(lambda: self._frames or self.broken is not None, PATIENCE_S)
            if self.broken is not None:
                raise self.broken
            number = self._frames.pop(0)
        if number < 0:
            raise BadFrameError("a frame that cannot be decoded")
        return Frame(image=np.full((1, 1, 3), number, np.uint8), encoding="rgb8", stamp_ns=number)

    def close(self) -> None:
        self.closed += 1


def until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


@contextmanager
def running(source: ScriptedSource, on_frame: Callable[[], None] = lambda: None) -> Iterator[Capture]:
    capture = Capture(source, on_frame, pauses_s=(0.001, 0.002))
    capture.start()
    try:
        yield capture
    finally:
        source.fail(RobotError("the test is over"))
        capture.stop(PATIENCE_S)


def test_nothing_is_opened_before_the_start() -> None:
    source = ScriptedSource()
    assert Capture(source, lambda: None).status == "it is being opened"
    assert source.opened == 0


def test_frames_that_cannot_be_used_are_passed_over_and_counted_and_the_source_stays_open() -> None:
    source = ScriptedSource()
    with running(source) as capture:
        source.give(1, *[-1] * MOST_BAD, 2, *[-1] * MOST_BAD, 3)
        until(lambda: capture.read == 3)
        assert (source.asked, capture.bad, capture.status) == (1, 2 * MOST_BAD, "")


def test_a_source_of_nothing_but_frames_that_cannot_be_used_is_opened_again() -> None:
    source = ScriptedSource()
    with running(source) as capture:
        source.give(1, *[-1] * (MOST_BAD + 1))
        until(lambda: source.asked == 2)
        assert "a frame that cannot be decoded" in capture.status
        source.give(2)
        until(lambda: capture.read == 2)


def test_the_newest_frame_wins_and_is_taken_once() -> None:
    source = ScriptedSource()
    with running(source) as capture:
        source.give(1, 2, 3)
        until(lambda: capture.skipped == 2)
        frame = capture.take()
        assert frame is not None
        assert frame.stamp_ns == 3
        assert capture.take() is None
        assert capture.status == ""


def test_one_who_is_slow_is_called_once_for_many_frames() -> None:
    source, calls = ScriptedSource(), []
    with running(source, lambda: calls.append(1)) as capture:
        source.give(1, 2, 3)
        until(lambda: capture.read == 3)
        assert len(calls) == 1
        capture.take()
        source.give(4)
        until(lambda: len(calls) == 2)


def test_a_lost_device_is_closed_said_and_opened_again() -> None:
    source = ScriptedSource()
    with running(source) as capture:
        source.give(1)
        until(lambda: capture.read == 1)
        source.fail(RobotError("device /dev/video0 delivers no frame"))
        until(lambda: source.asked > 2)
        assert capture.status.startswith("device /dev/video0 delivers no frame (next try in")
        assert source.closed >= 2
        source.fail(None)
        source.give(2)
        until(lambda: capture.status == "")
        assert capture.opened == 2


def test_pauses_grow_while_it_stays_lost_and_begin_anew_after_a_frame() -> None:
    source = ScriptedSource()
    source.fail(RobotError("gone"))
    capture = Capture(source, lambda: None, pauses_s=(0.001, 0.002, 0.003))
    said = set()
    capture.start()
    try:
        until(lambda: said.add(capture.status) or source.asked > 5)
        assert "gone (next try in 0.003 s)" in said
        source.fail(None)
        source.give(1)
        until(lambda: capture.read == 1)
        source.fail(RobotError("gone"))
        until(lambda: source.asked > 9)
    finally:
        capture.stop(PATIENCE_S)
    assert capture.opened == 1


def test_a_device_that_hangs_keeps_nobody_waiting() -> None:
    source = ScriptedSource()
    capture = Capture(source, lambda: None)
    capture.start()
    until(lambda: source.opened)
    begun_s = time.monotonic()
    assert capture.take() is None
    capture.stop(0.05)
    assert time.monotonic() - begun_s < PATIENCE_S / 2
    source.fail(RobotError("the test is over"))


def test_a_mistake_of_ours_is_raised_to_whoever_asks() -> None:
    source = ScriptedSource()
    source.fail(ZeroDivisionError("oops"))
    capture = Capture(source, lambda: None)
    capture.start()

    def failed() -> bool:
        try:
            return not capture.status
        except RobotError as error:
            return "oops" in str(error)

    until(failed)
    with pytest.raises(RobotError, match="capture thread failed: oops"):
        _ = capture.status
