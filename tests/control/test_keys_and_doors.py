"""Keys that count, messages that are let in, and what the last process before the motors obeys."""

from __future__ import annotations

import numpy as np
import pytest

from robot_stack.control.safety.admission import Doorkeeper, KeyAdmission
from robot_stack.control.safety.output_watchdog import BRAKING_NS, HardLimits, OutputWatchdog
from robot_stack.control.safety.publisher_guard import StopInputs
from robot_stack.types.command import Mode
from robot_stack.types.reason import RefusalKind
from tests.control.filter_rig import MS, twist

NOW = 10_000_000 * MS
PUSH = twist(x=0.1)


def kind(refusal: object) -> RefusalKind | None:
    return getattr(refusal, "kind", None)


@pytest.mark.parametrize(
    ("session", "stamp_ns", "why"),
    [
        ("teleop-1", NOW - 5 * MS, None),
        ("teleop-1", NOW - 49 * 60 * 1000 * MS, RefusalKind.STALE),
        ("teleop-1", NOW - 500 * MS, RefusalKind.STALE),
        ("teleop-1", 0, RefusalKind.UNSTAMPED),
        ("teleop-1", NOW + 100 * MS, RefusalKind.FUTURE),
        (None, NOW, RefusalKind.FOREIGN),
    ],
)
def test_a_key_counts_only_young_and_of_a_process_of_the_run(session, stamp_ns: int, why: RefusalKind | None):
    keys = KeyAdmission("teleop/events")
    events, refusal = keys.counted(("arm", "success"), session, max(stamp_ns, 0), NOW)
    assert kind(refusal) is why
    assert events == (("arm", "success") if why is None else ())


def test_a_key_counts_once():
    keys = KeyAdmission("teleop/events")
    assert keys.refusal("a", NOW, NOW) is None
    assert kind(keys.refusal("a", NOW, NOW + MS)) is RefusalKind.REPEATED
    assert kind(keys.refusal("a", NOW - MS, NOW + MS)) is RefusalKind.REPEATED
    assert keys.refusal("b", NOW, NOW + MS) is None


@pytest.mark.parametrize("session", [None, "teleop-1"])
def test_stop_and_hold_count_whoever_sends_them_and_however_old(session):
    events, refusal = KeyAdmission("teleop/events").counted(("arm", "stop", "hold"), session, 0, NOW)
    assert events == ("stop", "hold")
    assert refusal is not None


def test_the_door_turns_away_what_is_too_large_or_too_frequent_complains_once_and_opens_again():
    door = Doorkeeper("teleop/events", largest_bytes=1024, rate_hz=100)
    assert not door.lets_in(7_600_000, NOW)
    assert kind(door.complaint) is RefusalKind.OVERSIZED
    passed = [door.lets_in(100, NOW) for _ in range(100)]
    assert sum(passed) == 30
    assert not door.lets_in(100, NOW)
    assert door.complaint is None  # said once
    assert door.lets_in(100, NOW + 101 * MS)
    said = [door.complaint for _ in range(100) if not door.lets_in(100, NOW + 101 * MS)]
    assert [kind(each) for each in said if each] == [RefusalKind.FLOODED]
    assert door.flooded
    door.forget()
    assert not door.flooded
    assert door.lets_in(100, NOW + 102 * MS)


def watchdog() -> OutputWatchdog:
    return OutputWatchdog(0.05, "fr3/safety/cmd", HardLimits(speed_m_s=0.5, rotation_speed_rad_s=1.0))


@pytest.mark.parametrize(
    ("motion", "session", "mode", "age_ms", "why"),
    [
        (PUSH, "safety-1", Mode.POLICY, 0, None),
        (PUSH, None, Mode.POLICY, 0, RefusalKind.FOREIGN),
        (PUSH, "safety-1", Mode.DISARMED, 0, RefusalKind.WRONG_MODE),
        (PUSH, "safety-1", Mode.READY, 0, RefusalKind.WRONG_MODE),
        (PUSH, "safety-1", Mode.STOP, 0, RefusalKind.WRONG_MODE),
        (np.zeros(6), "safety-1", Mode.STOP, 0, None),
        (twist(x=100.0), "safety-1", Mode.POLICY, 0, RefusalKind.LIMIT),
        (twist(x=0.4, y=0.4), "safety-1", Mode.POLICY, 0, RefusalKind.LIMIT),
        (twist(rz=1.1), "safety-1", Mode.POLICY, 0, RefusalKind.LIMIT),
        (np.full(6, np.nan), "safety-1", Mode.POLICY, 0, RefusalKind.MALFORMED),
        (PUSH, "safety-1", Mode.POLICY, 51, RefusalKind.STALE),
    ],
)
def test_the_last_process_obeys_only_sealed_young_slow_commands_of_a_moving_mode(motion, session, mode, age_ms, why):
    last = watchdog()
    refusal = last.offer(motion, NOW - age_ms * MS, NOW, session=session, mode=mode)
    assert kind(refusal) is why
    assert last.twist(NOW).any() == (why is None and bool(motion.any()))


def test_braking_passes_after_a_moving_mode_and_not_for_ever():
    last = watchdog()
    assert last.offer(PUSH, NOW, NOW, session="s", mode=Mode.POLICY) is None
    late_ns = NOW + 10 * MS
    assert last.offer(PUSH / 2, late_ns, late_ns, session="s", mode=Mode.HOLD) is None
    late_ns = NOW + BRAKING_NS + MS
    assert kind(last.offer(PUSH / 2, late_ns, late_ns, session="s", mode=Mode.HOLD)) is RefusalKind.WRONG_MODE


@pytest.mark.parametrize(
    ("opening", "session", "age_ms", "mode", "why"),
    [
        (1.0, "s", 0, Mode.POLICY, None),
        (1.0, None, 0, Mode.POLICY, RefusalKind.FOREIGN),
        (1.0, "other", 0, Mode.POLICY, RefusalKind.SECOND_SENDER),
        (1.0, "s", 60, Mode.POLICY, RefusalKind.STALE),
        (1.5, "s", 0, Mode.POLICY, RefusalKind.MALFORMED),
        (None, "s", 0, Mode.POLICY, RefusalKind.MALFORMED),
        (float("nan"), "s", 0, Mode.POLICY, RefusalKind.MALFORMED),
        (1.0, "s", 0, Mode.STOP, RefusalKind.WRONG_MODE),
        (1.0, "s", 0, Mode.DISARMED, RefusalKind.WRONG_MODE),
        (1.0, "s", 0, Mode.READY, RefusalKind.WRONG_MODE),
    ],
)
def test_a_wish_for_the_gripper_is_admitted_as_a_motion_is(opening, session, age_ms: int, mode: Mode, why):
    last = watchdog()
    last.offer(np.zeros(6), NOW, NOW, session="s", mode=mode)
    refusal = last.offer_gripper(opening, NOW + MS - age_ms * MS, NOW + MS, session=session)
    assert kind(refusal) is why
    assert last.gripper == (opening if why is None else None)


def test_no_wish_for_the_gripper_outlives_the_safety_process_or_a_stop():
    last = watchdog()
    last.offer(PUSH, NOW, NOW, session="s", mode=Mode.POLICY)
    assert last.offer_gripper(1.0, NOW, NOW, session="s") is None
    last.offer(np.zeros(6), NOW + MS, NOW + MS, session="s", mode=Mode.STOP)
    assert last.gripper is None
    last.offer(PUSH, NOW + 2 * MS, NOW + 2 * MS, session="s", mode=Mode.POLICY)
    last.offer_gripper(1.0, NOW + 2 * MS, NOW + 2 * MS, session="s")
    assert not last.twist(NOW + 60 * MS).any()
    assert last.gripper is None


def test_a_stop_button_is_released_once_it_has_said_so_for_a_second():
    """Also one that sends changes only: its last "pressed" may be long ago when it lets go."""
    inputs = StopInputs()
    inputs.hear("stop_input", True, 1_000 * MS)
    inputs.hear("stop_input", False, 12_000 * MS)
    assert inputs.held(12_001 * MS) is not None
    inputs.hear("stop_input", False, 12_900 * MS)
    assert inputs.held(12_999 * MS) is not None
    assert inputs.held(13_001 * MS) is None


def test_a_flood_is_seen_wherever_its_tenth_of_a_second_begins():
    door = Doorkeeper("teleop/events", largest_bytes=1024, rate_hz=250)
    at_ns = 10**12
    assert door.lets_in(10, at_ns)
    passed = sum(door.lets_in(10, at_ns + 99 * MS + n * 10_000) for n in range(74))
    passed += sum(door.lets_in(10, at_ns + 100 * MS + 1 + n * 10_000) for n in range(75))
    assert passed == 75
    assert door.lets_in(10, at_ns + 300 * MS)


@pytest.mark.parametrize("rate_hz", [800, 1200])
def test_beside_a_flood_as_many_pass_as_may_so_that_a_button_among_them_is_heard(rate_hz: int):
    door = Doorkeeper("stop_input", largest_bytes=1024, rate_hz=250)
    passed = sum(door.lets_in(10, 10**12 + n * 10**9 // rate_hz) for n in range(2 * rate_hz))
    assert passed >= 0.9 * 2 * 750
    assert not door.flooded


def test_more_than_twice_as_many_as_pass_are_a_flood():
    door = Doorkeeper("stop_input", largest_bytes=1024, rate_hz=250)
    for n in range(400):
        door.lets_in(10, 10**12 + n * 10**9 // 2000)
    assert door.flooded
