"""Chunks of a base are played at the instants that they are for, and joined without a jump."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.rollout.base.timeline import Timeline
from tests.examples import examples

TICK_NS = 100_000_000
JITTER_NS = TICK_NS // 10


def joined(*, rate_hz: float, join_s: float, discrete: tuple[int, ...] = ()) -> Timeline:
    """A time line in a loop of 10 Hz."""
    return Timeline(rate_hz=rate_hz, join_s=join_s, period_s=0.1, discrete=discrete, limit=clipped)


def clipped(action: np.ndarray) -> np.ndarray:
    return np.clip(action, -1.0, 1.0)


def at(timeline: Timeline, now_ns: int) -> np.ndarray | None:
    """The action for an instant."""
    played = timeline.at(now_ns)
    return None if played is None else played.action


def line(start: float, slope: float, steps: int = 20) -> np.ndarray:
    """Actions of one entry that change by `slope` a tick."""
    return (start + slope * np.arange(steps, dtype=np.float32))[:, None]


def test_what_passed_while_a_chunk_was_computed_is_left_out() -> None:
    timeline = joined(rate_hz=10, join_s=0)
    timeline.add(0, line(0.0, 0.1))
    assert at(timeline, 3 * TICK_NS) == pytest.approx(0.3)
    assert at(timeline, 3 * TICK_NS + TICK_NS // 2) == pytest.approx(0.3)


def test_nothing_is_proposed_before_the_first_chunk_nor_after_the_last() -> None:
    timeline = joined(rate_hz=10, join_s=0.3)
    assert at(timeline, 0) is None
    timeline.add(TICK_NS, line(0.0, 0.1, steps=3))
    assert at(timeline, 0) is None
    assert [at(timeline, (1 + tick) * TICK_NS) is None for tick in range(4)] == [False, False, False, True]


def test_a_tick_plays_the_mean_of_the_steps_of_a_quicker_base() -> None:
    timeline = joined(rate_hz=30, join_s=0)
    timeline.add(0, line(0.0, 0.01, steps=30))
    assert [float(at(timeline, tick * TICK_NS)[0]) for tick in range(4)] == pytest.approx([0.01, 0.04, 0.07, 0.1])  # type: ignore[index]


@pytest.mark.parametrize("rate_hz", [12, 15, 30, 50, 200])
@pytest.mark.parametrize("late", [0, JITTER_NS])
def test_a_press_between_two_ticks_is_played_once(rate_hz: int, late: int) -> None:
    for step in range(rate_hz):
        chunk = np.zeros((2 * rate_hz, 2), np.float32)
        chunk[step, 1] = -1.0
        timeline = joined(rate_hz=rate_hz, join_s=0, discrete=(1,))
        timeline.add(0, chunk)
        played = [at(timeline, tick * TICK_NS + late * (tick % 2)) for tick in range(12)]
        pressed = [tick for tick, action in enumerate(played) if action is not None and action[1] == -1.0]
        assert len(pressed) == 1
        assert abs(pressed[0] - step * 10 / rate_hz) <= 1.5


def test_a_press_that_was_played_does_not_hide_the_next() -> None:
    chunk = np.zeros((6, 2), np.float32)
    chunk[1, 1], chunk[2, 1] = -1.0, 1.0  # at 15 Hz both lie in the first two ticks of 10 Hz
    timeline = joined(rate_hz=15, join_s=0, discrete=(1,))
    timeline.add(0, chunk)
    assert [float(at(timeline, tick * TICK_NS)[1]) for tick in range(3)] == [-1.0, 1.0, 0.0]  # type: ignore[index]


def test_who_asks_twice_at_one_instant_is_told_of_a_press_twice() -> None:
    chunk = np.zeros((10, 2), np.float32)
    chunk[0, 1] = -1.0
    timeline = joined(rate_hz=50, join_s=0, discrete=(1,))
    timeline.add(0, chunk)
    assert [float(at(timeline, now_ns)[1]) for now_ns in (0, 0, TICK_NS)] == [-1.0, -1.0, 0.0]  # type: ignore[index]


def test_an_answer_that_was_overtaken_is_not_gone_back_to() -> None:
    timeline = joined(rate_hz=10, join_s=0)
    timeline.add(2 * TICK_NS, line(0.5, 0.0))
    timeline.add(TICK_NS, line(-0.5, 0.0))
    assert at(timeline, 3 * TICK_NS) == pytest.approx(0.5)


def test_what_is_handed_out_is_a_copy() -> None:
    timeline = joined(rate_hz=10, join_s=0)
    timeline.add(0, line(0.5, 0.0))
    handed = at(timeline, 0)
    assert handed is not None
    handed += 1
    assert at(timeline, 0) == pytest.approx(0.5)


def test_nothing_is_left_of_an_episode_that_is_over() -> None:
    timeline = joined(rate_hz=10, join_s=0.3)
    timeline.add(0, line(0.5, 0.0))
    timeline.add(TICK_NS, line(-0.5, 0.0))
    timeline.clear()
    assert at(timeline, TICK_NS) is None


def test_a_join_that_is_overtaken_goes_on_from_where_the_arm_is() -> None:
    timeline = joined(rate_hz=10, join_s=1.0)
    played = []
    for tick in range(30):
        if tick % 2 == 0:
            timeline.add(tick * TICK_NS, line(1.0 if tick % 4 else -1.0, 0.0))
        found = at(timeline, tick * TICK_NS)
        assert found is not None
        played.append(float(found[0]))
    assert max(np.abs(np.diff(played))) <= 2.0 / 11 + 1e-5


@given(
    starts=st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=6),
    slope=st.floats(-0.0625, 0.0625, width=32),
    every=st.integers(1, 8),
    late=st.integers(0, 3),
)
def test_no_join_steps_further_than_the_chunks_and_a_share_of_what_lies_between(
    starts: list[float], slope: float, every: int, late: int
) -> None:
    join = 3
    timeline = joined(rate_hz=10, join_s=join / 10)
    played: list[float] = []
    for tick in range(every * len(starts) + late):
        number, rest = divmod(tick - late, every)
        if rest == 0 and 0 <= number < len(starts):
            timeline.add((tick - late) * TICK_NS, line(starts[number], slope))
        found = at(timeline, tick * TICK_NS)
        played += [] if found is None else [float(found[0])]
    reached = max(starts) - min(starts) + 2 * abs(slope) * (late + every + join)
    assert max(np.abs(np.diff(played)), default=0.0) <= reached / (join + 1) + abs(slope) + 1e-5
    if every > join:
        end = starts[-1] + slope * (late + every - 1)
        assert played[-1] == pytest.approx(min(1.0, max(-1.0, end)), abs=1e-5)


def test_two_answers_to_one_observation_are_played_as_the_later_one_has_it() -> None:
    timeline = joined(rate_hz=10, join_s=0)
    timeline.add(0, line(0.5, 0.0))
    timeline.add(0, line(-0.5, 0.0))
    assert at(timeline, 0) == pytest.approx(-0.5)


def test_a_chunk_says_since_when_it_plays_and_for_how_long_the_one_before_did() -> None:
    timeline = joined(rate_hz=10, join_s=0)
    said = []
    for tick, answer in enumerate((0, None, 1, None, 3, 4)):
        if answer is not None:
            timeline.add(answer * TICK_NS, line(0.0, 0.1), np.full(2, answer, np.float32))
        played = timeline.at(tick * TICK_NS)
        assert played is not None
        assert played.noise is not None
        said.append((played.noise[0], played.since_ns // TICK_NS, played.before_ns // TICK_NS))
    assert said == [(0, 0, 0), (0, 0, 0), (1, 2, 2), (1, 2, 2), (3, 4, 2), (4, 5, 1)]
    timeline.clear()
    timeline.add(9 * TICK_NS, line(0.0, 0.1))
    played = timeline.at(9 * TICK_NS)
    assert played is not None
    assert (played.before_ns, played.noise) == (0, None)  # of an episode that is over nothing is left


@settings(max_examples=examples(50), deadline=None)
@given(
    rate_hz=st.sampled_from([5, 10, 20]),
    late_ns=st.lists(st.integers(0, JITTER_NS), min_size=20, max_size=20),
    every=st.integers(1, 4),
)
def test_stamps_that_jitter_play_each_action_at_its_tick(rate_hz: int, late_ns: list[int], every: int) -> None:
    stamps_ns = [tick * TICK_NS + late for tick, late in enumerate(late_ns)]
    timeline = joined(rate_hz=rate_hz, join_s=0)
    for tick, now_ns in enumerate(stamps_ns):
        asked = tick // every * every
        timeline.add(stamps_ns[asked], line(0.0, 0.015625))
        found = at(timeline, now_ns)
        assert found is not None
        first, steps = (tick - asked) * rate_hz // 10, max(1, rate_hz // 10)
        assert float(found[0]) / 0.015625 == pytest.approx(first + (steps - 1) / 2)


def test_a_discrete_gripper_is_never_told_what_neither_chunk_says() -> None:
    timeline = joined(rate_hz=10, join_s=0.3, discrete=(1,))
    timeline.add(0, np.tile(np.float32([0.0, 1.0]), (20, 1)))
    assert at(timeline, 0) is not None
    timeline.add(TICK_NS, np.tile(np.float32([1.0, -1.0]), (20, 1)))  # it closes, and the arm goes on slowly
    played = np.array([at(timeline, tick * TICK_NS) for tick in range(1, 5)])
    np.testing.assert_allclose(played[:, 0], [0.25, 0.5, 0.75, 1.0], atol=1e-6)
    np.testing.assert_array_equal(played[:, 1], -1.0)
