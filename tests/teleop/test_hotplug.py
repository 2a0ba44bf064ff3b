"""Devices that come and go."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from robot_stack.teleop.readers import FIRST_PAUSE_NS, LONGEST_PAUSE_NS, HotPlug, MessageReader, PortReader
from robot_stack.teleop.reading import Reading
from robot_stack.types.errors import RobotError
from tests.teleop.fake_devices import at_once

MS = 1_000_000


class Numbers:
    """Decodes numbers into x; -1 is nonsense."""

    def __init__(self) -> None:
        self._x = 0.0

    def push(self, packet: float) -> None:
        if packet == -1:
            raise RobotError("number is -1, must not be; replug it")
        self._x = packet

    def reading(self) -> Reading:
        return Reading(axes=np.array([self._x, 0, 0, 0, 0, 0]))


class Plug:
    """What opens, and how often it was tried."""

    def __init__(self) -> None:
        self.there = False
        self.tries: list[int] = []
        self.closed = 0
        self.packets: list[float] = []
        self.fails = False
        self.now_ns = 0

    def open(self) -> Plug:
        self.tries.append(self.now_ns)
        if not self.there:
            raise RobotError("device is missing; plug it in")
        return self

    def read(self) -> list[float]:
        if self.fails:
            raise OSError(19, "No such device")
        packets, self.packets = self.packets, []
        return packets

    def close(self) -> None:
        self.closed += 1


def polled(reader: PortReader, plug: Plug, until_ns: int, step_ns: int = 4 * MS) -> Reading | None:
    reading = None
    while plug.now_ns < until_ns:
        plug.now_ns += step_ns
        reading = reader.poll(plug.now_ns)
    return reading


def make(**options: float) -> tuple[Plug, PortReader]:
    plug = Plug()
    return plug, PortReader("thing", HotPlug(plug.open, at_once), Numbers, **options)


def test_an_absent_device_is_looked_for_with_rising_pauses_up_to_the_longest():
    plug, reader = make()
    assert polled(reader, plug, 30_000 * MS, 10 * MS) is None
    pauses = np.diff(plug.tries)
    wanted = [FIRST_PAUSE_NS, 2 * FIRST_PAUSE_NS, 4 * FIRST_PAUSE_NS, 8 * FIRST_PAUSE_NS]
    assert np.abs(pauses[:4] - np.array(wanted)).max() <= 10 * MS
    assert (np.abs(pauses[4:] - LONGEST_PAUSE_NS) <= 10 * MS).all()
    assert reader.problem == "thing: device is missing; plug it in"


def test_a_device_that_works_again_is_looked_for_quickly_the_next_time():
    plug, reader = make()
    polled(reader, plug, 10_000 * MS)
    plug.there, plug.packets = True, [0.5]
    assert polled(reader, plug, 20_000 * MS) is not None
    plug.fails, plug.there = True, False
    polled(reader, plug, plug.now_ns + 4 * MS)
    before = len(plug.tries)
    polled(reader, plug, plug.now_ns + FIRST_PAUSE_NS + 8 * MS)
    assert len(plug.tries) == before + 1
    assert plug.closed == 1


def test_nonsense_closes_the_port_and_is_told():
    plug, reader = make()
    plug.there, plug.packets = True, [0.5, -1]
    assert polled(reader, plug, 4 * MS) is None
    assert "must not be" in reader.problem
    assert plug.closed == 1


def test_after_a_loss_nothing_that_was_said_before_is_believed():
    plug, reader = make()
    plug.there, plug.packets = True, [0.7]
    assert polled(reader, plug, 4 * MS).axes[0] == 0.7
    plug.fails = True
    polled(reader, plug, 8 * MS)
    plug.fails = False
    assert polled(reader, plug, 1_000 * MS).axes[0] == 0.0


def test_a_device_that_repeats_itself_is_lost_when_it_is_silent_while_deflected_until_it_is_at_rest():
    plug, reader = make(silence_s=0.25)
    plug.there, plug.packets = True, [0.7]
    assert polled(reader, plug, 252 * MS) is not None
    assert polled(reader, plug, 260 * MS) is None
    assert "silent while deflected" in reader.problem
    plug.packets = [0.6]
    assert polled(reader, plug, 300 * MS) is None, "back, and still deflected"
    plug.packets = [0.0]
    assert polled(reader, plug, 400 * MS) is not None
    assert polled(reader, plug, 5_000 * MS) is not None, "silent at rest, as it should be"


def test_opening_never_holds_up_the_loop_and_a_device_that_hangs_is_not_opened_twice():
    began, let_go, tries = threading.Event(), threading.Event(), []

    def hangs() -> Plug:
        tries.append(1)
        began.set()
        let_go.wait(10.0)
        raise RobotError("it hung")

    plug = HotPlug(hangs)
    for step in range(1000):
        assert plug.attempt(step * 10 * MS) is None
    assert began.wait(5.0)
    assert plug.attempt(10**12) is None
    assert tries == [1]
    let_go.set()


def test_an_error_nobody_thought_of_is_told_and_not_swallowed():
    def breaks() -> Plug:
        raise KeyError("usage_page")

    plug = HotPlug(breaks, at_once)
    assert plug.attempt(0) is None
    assert plug.problem == "KeyError: 'usage_page'"


def test_a_silent_sender_is_lost_exactly_after_its_timeout():
    reader = MessageReader("joy", Numbers, 0.15)
    assert reader.poll(0) is None
    reader.feed(0.5, 1_000 * MS)
    assert reader.poll(1_150 * MS) is not None
    assert reader.poll(1_151 * MS) is None
    assert "silent for 150 ms" in reader.problem
    reader.feed(0.0, 1_200 * MS)
    assert reader.poll(1_200 * MS).axes[0] == 0.0
    assert reader.problem == ""


def test_a_broken_message_is_told_even_if_a_good_one_follows_before_anybody_looks():
    reader = MessageReader("joy", Numbers, 0.15)
    reader.feed(0.5, 0)
    reader.feed(-1, 1 * MS)
    reader.feed(0.5, 2 * MS)
    assert reader.poll(3 * MS) is None
    assert "must not be" in reader.problem
    assert reader.poll(4 * MS) is not None


@pytest.mark.parametrize("axes", [np.full(6, np.nan), np.array([np.inf, 0, 0, 0, 0, 0]), np.zeros(5), np.full(6, 2.1)])
def test_a_reading_checks_itself(axes: np.ndarray):
    with pytest.raises(RobotError, match="six numbers"):
        Reading(axes=axes)
