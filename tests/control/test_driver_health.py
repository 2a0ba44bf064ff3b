"""When an arm may be driven, and who may say so again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from robot_stack.control.drivers.driver_health import RECOVERY_NS, DriverHealth, Input
from robot_stack.types.reason import Fault, FaultKind

MS = 1_000_000
S = 1_000_000_000
REFLEX = Fault(kind=FaultKind.DRIVER_ERROR, text="reflex")
STOPPED = Fault(kind=FaultKind.PROTECTIVE_STOP, text="UR says PROTECTIVE_STOP")
ODD = Fault(kind=FaultKind.INPUT_INVALID, text="joint states on /joint_states are odd")
RIVAL = Fault(kind=FaultKind.SECOND_SENDER, text="elbow in joint states on /joint_states jumps by 1.30 rad")
NOBODY = Fault(kind=FaultKind.INPUT_MISSING, text="nobody publishes /joint_states; start the driver")
PRESSED = Fault(kind=FaultKind.EMERGENCY_STOP, text="UR says ROBOT_EMERGENCY_STOP")


@pytest.fixture
def health() -> DriverHealth:
    health = DriverHealth("/cell/ur/recover")
    health.expect(Input(name="joint states", topic="/joint_states", timeout_s=0.1))
    health.expect(Input(name="safety modes", topic="/safety_mode", timeout_s=None))
    return health


def hear_all(health: DriverHealth, now_ns: int) -> None:
    health.heard("joint states", now_ns)
    health.heard("safety modes", now_ns)


def test_nothing_moves_before_everything_was_heard(health: DriverHealth) -> None:
    assert str(health.reason(S)) == (
        "joint states have not come on /joint_states; start the driver or correct the topic"
    )
    health.heard("joint states", S)
    assert "safety modes have not come on /safety_mode" in str(health.reason(S))
    health.heard("safety modes", S)
    assert health.reason(S) is None


def test_an_input_is_stale_after_its_timeout_and_a_latched_one_never(health: DriverHealth) -> None:
    hear_all(health, S)
    assert health.reason(S + 100 * MS) is None
    assert "are silent (limit 100 ms); look after the driver" in str(health.reason(S + 101 * MS))
    health.heard("joint states", 10 * S)
    assert health.reason(10 * S) is None


def test_a_reason_stays_the_same_words_while_it_lasts(health: DriverHealth) -> None:
    hear_all(health, S)
    assert len({health.reason(now_ns) for now_ns in range(2 * S, 3 * S, 10 * MS)}) == 1


def test_one_bad_message_among_good_ones_is_no_fault_and_only_bad_ones_are(health: DriverHealth) -> None:
    hear_all(health, S)
    health.refused("joint states", ODD, S)
    assert health.reason(S + 50 * MS) is None
    assert str(health.reason(S + 150 * MS)) == "joint states on /joint_states are odd"
    health.heard("joint states", S + 160 * MS)
    assert health.reason(S + 160 * MS) is None


def test_a_message_that_shows_a_second_sender_counts_among_good_ones_and_for_a_second_after(
    health: DriverHealth,
) -> None:
    hear_all(health, S)
    health.refused("joint states", RIVAL, S)
    health.refused("joint states", replace(RIVAL, text="by 1.31 rad"), S + 10 * MS)
    for tick in range(1, 100):
        health.heard("joint states", S + tick * 10 * MS)
        assert health.reason(S + tick * 10 * MS) == RIVAL  # the same words while it lasts
    health.heard("joint states", 2 * S + 11 * MS)
    assert health.reason(2 * S + 11 * MS) is None


def test_what_the_graph_shows_explains_a_silence(health: DriverHealth) -> None:
    health.explain("joint states", NOBODY)
    assert str(health.reason(S)) == "joint states: nobody publishes /joint_states; start the driver"


def test_a_fault_stays_after_the_driver_is_well_until_a_person_asks(health: DriverHealth) -> None:
    hear_all(health, S)
    health.report(STOPPED, S)
    assert str(health.reason(S)) == "UR says PROTECTIVE_STOP; then call /cell/ur/recover"
    for now_ns in range(S, S + 100 * MS, 10 * MS):
        health.report(None, now_ns)
        assert health.fault
    assert health.recover(S + 100 * MS, asked_driver=False) is None
    assert health.reason(S + 100 * MS) is None


def test_recovery_is_refused_while_the_driver_reports_the_fault(health: DriverHealth) -> None:
    hear_all(health, S)
    health.report(STOPPED, S)
    assert str(health.recover(S, asked_driver=False)) == "driver still reports: UR says PROTECTIVE_STOP"
    health.report(None, S + MS)
    assert health.fault == STOPPED


def test_a_driver_that_was_told_to_recover_has_a_moment_for_it(health: DriverHealth) -> None:
    hear_all(health, S)
    health.report(REFLEX, S)
    assert health.recover(S, asked_driver=True) is None
    health.report(REFLEX, S + MS)
    assert health.fault == REFLEX
    health.report(None, S + 500 * MS)
    assert health.fault is None
    health.report(REFLEX, S + 501 * MS)
    assert health.fault == REFLEX


def test_a_recovery_that_comes_too_late_clears_nothing(health: DriverHealth) -> None:
    hear_all(health, S)
    health.report(REFLEX, S)
    health.recover(S, asked_driver=True)
    health.report(REFLEX, S + RECOVERY_NS)
    health.report(None, S + RECOVERY_NS + MS)
    assert health.fault == REFLEX


def test_a_stop_button_counts_at_once_also_while_the_driver_recovers(health: DriverHealth) -> None:
    hear_all(health, S)
    health.report(REFLEX, S)
    health.recover(S, asked_driver=True)
    health.report(PRESSED, S + MS)
    reason = health.reason(S + MS)
    assert reason is not None
    assert reason.kind is FaultKind.EMERGENCY_STOP
    health.report(None, S + 500 * MS)
    assert health.fault is None


def test_each_reason_has_the_kind_of_what_it_is_about(health: DriverHealth) -> None:
    kinds = []
    for prepare in (
        lambda: None,
        lambda: hear_all(health, S),
        lambda: health.explain("joint states", NOBODY),
        lambda: health.refused("joint states", ODD, S),
        lambda: health.report(STOPPED, 2 * S),
    ):
        prepare()
        reason = health.reason(2 * S)
        kinds.append(None if reason is None else reason.kind)
    assert kinds == [
        FaultKind.INPUT_MISSING,
        FaultKind.INPUT_STALE,
        FaultKind.INPUT_MISSING,
        FaultKind.INPUT_INVALID,
        FaultKind.PROTECTIVE_STOP,
    ]


def test_asking_without_a_fault_is_harmless(health: DriverHealth) -> None:
    hear_all(health, S)
    assert health.recover(S, asked_driver=False) is None
    assert health.recover(S, asked_driver=True) is None
    health.report(STOPPED, S + MS)
    assert health.fault == STOPPED


def test_a_fault_comes_before_a_silence(health: DriverHealth) -> None:
    health.report(REFLEX, S)
    assert str(health.reason(5 * S)).startswith("reflex")


def test_ages_and_counts_are_told_of_what_was_heard(health: DriverHealth) -> None:
    assert health.values(S) == {}
    for each in range(3):
        health.heard("joint states", S + each * MS)
    health.refused("safety modes", ODD, S)
    assert health.values(S + 12 * MS) == {"joint states: age_ms": 10.0, "joint states: count": 3}


def test_who_asks_for_recovery_is_told_what_is_silent_and_what_to_do_about_it() -> None:
    health = DriverHealth("/cell/fr3/recover")
    health.expect(Input(name="joint states", topic="/joint_states", timeout_s=0.1))
    health.expect(Input(name="states", topic="/robot_state", timeout_s=0.1, remedy="activate the hardware again"))
    for name in ("joint states", "states"):
        health.heard(name, S)
    assert health.silences(S) == ""
    assert health.silences(2 * S).endswith("silent (limit 100 ms); activate the hardware again")
    assert health.silences(2 * S).startswith("joint states on /joint_states are silent (limit 100 ms)")
