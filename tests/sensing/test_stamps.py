"""Foreign stamps on our clock."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.sensing.stamps import DRIFT, JUMP_NS, PROOF, SILENCE_NS, OwnStamps, stamp_clock

MS = 1_000_000
PERIOD_NS = 33 * MS
START_NS = 50_000 * MS
HOUR_NS = 3600 * 1000 * MS


def ages_ms(clock: OwnStamps, latencies_ms: list[float], *, offset_ns: int = 0, drift: float = 0.0) -> list[float]:
    """Ages that the translated stamps of a steady source show on arrival."""
    found = []
    for k, latency_ms in enumerate(latencies_ms):
        captured_ns = START_NS + k * PERIOD_NS
        stamp_ns = captured_ns + offset_ns + round((captured_ns - START_NS) * drift)
        arrival_ns = captured_ns + round(latency_ms * MS)
        found.append((arrival_ns - clock.to_monotonic(stamp_ns, arrival_ns, 0)) / MS)
    return found


@given(st.integers(-HOUR_NS, HOUR_NS), st.integers(0, 400))
def test_wall_stamps_show_the_true_age_whatever_the_wall_clock_says(wall_minus_steady_ns: int, age_ms: int) -> None:
    now_ns = 10 * HOUR_NS
    wall_ns = now_ns + wall_minus_steady_ns
    found_ns = stamp_clock("wall").to_monotonic(wall_ns - age_ms * MS, now_ns, wall_ns)
    assert found_ns == now_ns - age_ms * MS


def test_a_step_of_the_wall_clock_moves_only_what_is_under_way() -> None:
    clock, now_ns, before_ns = stamp_clock("wall"), 100 * HOUR_NS, 500 * HOUR_NS
    after_ns = before_ns + HOUR_NS
    assert clock.to_monotonic(before_ns - MS, now_ns, after_ns) == now_ns - HOUR_NS - MS
    assert clock.to_monotonic(after_ns - MS, now_ns, after_ns) == now_ns - MS


@pytest.mark.parametrize("kind", ["wall", "own"])
def test_an_unset_stamp_stays_unset(kind: str) -> None:
    assert stamp_clock(kind).to_monotonic(0, START_NS, START_NS) <= 0


def test_the_arrival_can_stand_for_any_stamp() -> None:
    assert stamp_clock("arrival").to_monotonic(0, START_NS, 7) == START_NS


@given(
    st.integers(0, HOUR_NS),
    st.lists(st.floats(0, 40), min_size=1, max_size=60),
    st.floats(-DRIFT / 2, DRIFT / 2),
)
def test_own_stamps_show_the_latency_above_the_fastest_so_far(
    offset_ns: int, latencies_ms: list[float], drift: float
) -> None:
    found = ages_ms(OwnStamps(), latencies_ms, offset_ns=offset_ns, drift=drift)
    for k, age_ms in enumerate(found):
        true_ms = latencies_ms[k] - min(latencies_ms[: k + 1])
        parted_ms = 2 * DRIFT * (k + 1) * 40
        assert age_ms >= -1e-3
        assert age_ms == pytest.approx(true_ms, abs=parted_ms + 1e-3)


def test_a_latency_that_comes_up_later_is_seen_and_stays_seen() -> None:
    found = ages_ms(OwnStamps(), [5.0] * 30 + [305.0] * 300, offset_ns=HOUR_NS)
    assert max(found[:30]) < 1.0
    assert min(found[30:]) > 290.0


@pytest.mark.parametrize("drift", [-DRIFT / 2, DRIFT / 2])
def test_clocks_that_part_slowly_are_kept_together_for_ten_minutes(drift: float) -> None:
    assert max(ages_ms(OwnStamps(), [5.0] * 18_000, drift=drift)) < 1.0


def test_one_stamp_from_the_future_does_not_move_the_clock() -> None:
    clock = OwnStamps()
    for k in range(10):
        clock.to_monotonic(k * PERIOD_NS + 1, START_NS + k * PERIOD_NS, 0)
    now_ns = START_NS + 10 * PERIOD_NS
    assert clock.to_monotonic(10 * PERIOD_NS + 500 * MS, now_ns, 0) > now_ns + JUMP_NS
    now_ns += PERIOD_NS
    assert abs(clock.to_monotonic(11 * PERIOD_NS, now_ns, 0) - now_ns) < MS


@pytest.mark.parametrize("jump_ns", [HOUR_NS, -HOUR_NS // 1000])
def test_a_clock_that_was_set_is_learnt_after_proof(jump_ns: int) -> None:
    clock, base_ns = OwnStamps(), HOUR_NS
    for k in range(10):
        clock.to_monotonic(base_ns + k * PERIOD_NS, START_NS + k * PERIOD_NS, 0)
    found = []
    for k in range(10, 10 + PROOF):
        now_ns = START_NS + k * PERIOD_NS
        found.append((clock.to_monotonic(base_ns + jump_ns + k * PERIOD_NS, now_ns, 0) - now_ns) / MS)
    assert min(np.abs(found[:-1])) > JUMP_NS / MS
    assert abs(found[-1]) < 1.0


def test_a_driver_that_starts_anew_is_learnt_at_once() -> None:
    clock = OwnStamps()
    clock.to_monotonic(HOUR_NS, START_NS, 0)
    later_ns = START_NS + SILENCE_NS + 1
    assert clock.to_monotonic(5, later_ns, 0) == later_ns
