"""Ages survive steps and slewing of the wall clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from robot_stack.nodes.ros_time import STEP_NS, ClockOffset

MS = 1_000_000
BOOTED_NS = 1_700_000_000_000_000_000


class Clocks:
    """A machine's two clocks, both in the hands of the test."""

    def __init__(self) -> None:
        self.steady_ns = 5_000 * MS
        self.ahead_ns = BOOTED_NS
        self.reading_ns = 0
        """What a reading of the steady clock takes."""

    def steady(self) -> int:
        self.steady_ns += self.reading_ns
        return self.steady_ns

    def wall(self) -> int:
        return self.steady_ns + self.ahead_ns


def test_a_stamp_comes_back_as_it_went_while_nothing_steps() -> None:
    clocks = Clocks()
    offset = ClockOffset(clocks.steady, clocks.wall)
    for _ in range(100):
        sent_ns = clocks.steady_ns
        on_wire_ns = sent_ns + offset.now_ns()
        clocks.steady_ns += 10 * MS
        assert on_wire_ns - offset.now_ns() == sent_ns
        assert on_wire_ns == sent_ns + BOOTED_NS


@given(step_ms=st.integers(-3_600_000, 3_600_000), sent_before=st.booleans())
def test_after_a_step_only_what_is_under_way_has_a_wrong_age(step_ms: int, sent_before: bool) -> None:
    clocks = Clocks()
    sender, receiver = (ClockOffset(clocks.steady, clocks.wall) for _ in range(2))
    if sent_before:
        under_way_ns = clocks.steady_ns + sender.now_ns()
    clocks.ahead_ns += step_ms * MS
    if sent_before:
        assert abs(under_way_ns - receiver.now_ns() - clocks.steady_ns) <= abs(step_ms) * MS
    for _ in range(3):
        sent_ns = clocks.steady_ns
        on_wire_ns = sent_ns + sender.now_ns()
        clocks.steady_ns += 5 * MS
        assert on_wire_ns - receiver.now_ns() == sent_ns if abs(step_ms) * MS > STEP_NS else True
        assert abs(on_wire_ns - receiver.now_ns() - sent_ns) <= STEP_NS
        assert abs(on_wire_ns - (clocks.wall() - 5 * MS)) <= STEP_NS


def test_two_processes_disagree_by_two_steps_at_most_while_the_clock_slews() -> None:
    clocks = Clocks()
    early, late = ClockOffset(clocks.steady, clocks.wall), None
    for tick in range(20_000):  # 200 s at 500 ppm, the most that NTP slews
        clocks.steady_ns += 10 * MS
        clocks.ahead_ns += 5_000
        if tick == 7_000:
            late = ClockOffset(clocks.steady, clocks.wall)
        if late is not None:
            assert abs(early.now_ns() - late.now_ns()) <= STEP_NS
        assert abs(early.now_ns() - clocks.ahead_ns) <= STEP_NS


def test_an_interruption_between_two_readings_is_no_step() -> None:
    clocks = Clocks()
    offset = ClockOffset(clocks.steady, clocks.wall)
    calls = iter([False, True, *[False] * 30])

    def interrupted() -> int:
        now_ns = clocks.wall()
        return now_ns + 50 * MS if next(calls) else now_ns

    offset._wall = interrupted
    offset.now_ns()
    assert offset.now_ns() == BOOTED_NS
