"""Who is in control, and when that changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from robot_stack.types.command import Clamp, Mode, Source
from robot_stack.types.reason import Fault, FaultKind, Refusal, RefusalKind
from tests.control.filter_rig import LIMITS, MS, TICK_NS, Rig, twist

ASKED = Refusal(kind=RefusalKind.SERVICE, text="test")
STOP_PRESSED = Refusal(kind=RefusalKind.KEY, text="stop pressed")

PUSH = twist(x=0.1)


def driving(**options: int) -> Rig:
    rig = Rig(**options).armed()
    rig.policy = PUSH
    rig.run(0.5)
    assert rig.filter.mode is Mode.POLICY
    return rig


def test_nothing_moves_before_arm_and_start():
    rig = Rig()
    rig.policy, rig.hand, rig.deadman = PUSH, np.ones(6), True
    assert all(not d.command.twist.any() and d.mode is Mode.DISARMED for d in rig.run(0.3))
    rig.deadman = False
    rig.tick()
    assert rig.filter.arm(rig.now_ns) is None
    rig.deadman = True
    assert all(not d.command.twist.any() and d.mode is Mode.READY for d in rig.run(0.3))


def test_policy_drives_after_start_and_reaches_its_command():
    rig = driving()
    decision = rig.tick()
    np.testing.assert_allclose(decision.command.twist, PUSH, atol=1e-6)
    assert decision.source is Source.POLICY


def test_arming_needs_a_robot_state_and_a_released_deadman():
    rig = Rig()
    assert "missing" in str(rig.filter.arm(rig.now_ns))
    rig.hand, rig.deadman = np.zeros(6), True
    rig.tick()
    assert "deadman" in str(rig.filter.arm(rig.now_ns))


def test_a_base_frame_command_moves_the_arm_along_the_base_axis():
    rig = Rig().armed()
    for _ in range(60):
        rig.offer(rig.command(twist(y=0.1), frame="base"))
        rig.tick()
    assert rig.pose.position_m[1] > 0.03
    assert abs(rig.pose.position_m[2] - 0.15) < 1e-9


@pytest.mark.parametrize(("silent_ms", "mode"), [(150, Mode.POLICY), (151, Mode.HOLD)])
def test_policy_timeout_is_exact(silent_ms: int, mode: Mode):
    rig = driving()
    last_ns, rig.policy = rig.now_ns, None
    rig.now_ns = last_ns + silent_ms * MS
    rig.filter.offer_state(rig.state(), rig.now_ns)
    decision = rig.decide()
    assert decision.mode is mode
    assert ("policy silent for 151 ms (limit 150)" in str(decision.reason)) == (mode is Mode.HOLD)


def test_a_policy_that_never_sends_all_parts_is_told_which_is_missing():
    rig = Rig().armed()
    for _ in range(101):
        rig.filter.offer_incomplete(["arm/policy/gripper"], rig.now_ns)
        (decision,) = rig.run(0.01)
    assert decision.mode is Mode.HOLD
    assert decision.reason.kind is RefusalKind.POLICY_SILENT
    assert "policy sent nothing whole for 10" in str(decision.reason)
    assert "(limit 1000): arm/policy/gripper is missing or has another stamp; send all" in str(decision.reason)
    assert rig.filter.counters["incomplete_policy"] == 101


def test_a_policy_that_has_died_is_not_said_to_be_incomplete():
    rig = driving()
    rig.filter.offer_incomplete(["arm/policy/gripper"], rig.now_ns)
    rig.policy = None
    assert "policy silent for" in str(rig.run(0.3)[-1].reason)


@pytest.mark.parametrize(("age_ms", "mode"), [(100, Mode.POLICY), (101, Mode.HOLD)])
def test_state_timeout_is_exact(age_ms: int, mode: Mode):
    rig = driving()
    rig.now_ns += age_ms * MS
    rig.offer(rig.command(PUSH))
    assert rig.decide().mode is mode


def test_a_silent_policy_is_not_resumed_by_fresh_commands_alone():
    rig = driving()
    rig.policy = None
    rig.run(0.3)
    rig.policy = PUSH
    assert rig.run(1.0)[-1].mode is Mode.HOLD
    assert rig.filter.resume(rig.now_ns) is None
    assert rig.run(0.3)[-1].mode is Mode.POLICY


def test_a_policy_gets_a_second_for_its_first_command():
    rig = Rig().armed()
    assert rig.run(1.0)[-1].mode is Mode.POLICY
    assert rig.run(0.05)[-1].mode is Mode.HOLD


def test_human_takes_over_and_control_goes_back_after_the_release_time():
    rig = driving()
    rig.hand, rig.deadman = twist(y=0.5, rz=0.25), False
    rig.tick()
    rig.deadman = True
    assert rig.tick().mode is Mode.HUMAN
    taken = rig.run(0.5)[-1]
    np.testing.assert_allclose(taken.command.twist, twist(y=0.1, rz=0.2), atol=1e-6)
    assert taken.source is Source.HUMAN
    rig.deadman = False
    waiting = rig.run(0.3)
    assert {d.source for d in waiting} == {Source.IDLE}
    assert {d.mode for d in waiting} == {Mode.HUMAN}
    assert rig.tick().source is Source.POLICY


def test_take_over_and_hand_back_are_blended():
    rig = driving()
    rig.hand, rig.deadman = np.zeros(6), False
    rig.tick()
    rig.deadman, rig.hand = True, twist(x=-0.5)
    speeds = [d.command.twist[0] for d in rig.run(0.5)]
    steps = np.diff([0.1, *speeds])
    assert speeds[-1] == pytest.approx(-0.1, abs=1e-6)
    assert np.abs(steps).max() < 0.2 / 20 * 1.8
    assert sum(abs(steps) > 1e-4) >= 15


def test_a_human_who_stands_still_is_idle_only_after_the_idle_time():
    rig = driving()
    rig.hand, rig.deadman = np.zeros(6), False
    rig.tick()
    rig.deadman, rig.hand = True, twist(x=0.5)
    rig.run(0.2)
    rig.hand = np.zeros(6)
    sources = [d.source for d in rig.run(0.5)]
    assert sources[:30] == [Source.HUMAN] * 30
    assert set(sources[30:]) == {Source.IDLE}
    rig.hand = twist(x=0.5)
    assert rig.tick().source is Source.HUMAN


def test_an_engaged_human_who_never_moved_is_idle_from_the_start():
    rig = driving()
    rig.hand, rig.deadman = np.zeros(6), False
    rig.tick()
    rig.deadman = True
    assert {d.source for d in rig.run(0.2)} == {Source.IDLE}


@pytest.mark.parametrize("released", [False, True])
def test_teleop_that_dies_while_engaged_leads_to_hold_not_to_the_policy(released: bool):
    rig = driving()
    rig.hand, rig.deadman = np.zeros(6), False
    rig.tick()
    rig.deadman = True
    rig.run(0.1)
    if released:
        rig.deadman = False
        rig.tick()
    rig.hand = None
    decisions = rig.run(0.2)
    assert Source.POLICY not in {d.source for d in decisions}
    assert decisions[-1].mode is Mode.HOLD
    assert "teleop silent" in str(decisions[-1].reason)


def taken_over() -> Rig:
    rig = driving()
    rig.hand, rig.deadman = twist(x=0.5), False
    rig.tick()
    rig.deadman = True
    rig.run(0.1)
    assert rig.filter.mode is Mode.HUMAN
    return rig


def lose(rig: Rig) -> None:
    """The device is gone: its process says so, with the deadman released as it must be."""
    rig.now_ns += MS
    rig.hand = None
    rig.offer_teleop(rig.sample(deadman=False, lost=True))


@pytest.mark.parametrize("released", [False, True])
def test_a_device_that_is_lost_in_control_is_a_hold_at_the_next_tick_and_never_the_policys_turn(released: bool):
    rig = taken_over()
    if released:
        rig.deadman = False
        rig.tick()
    lose(rig)
    decision = rig.tick()
    assert decision.mode is Mode.HOLD
    assert str(decision.reason).startswith("teleop device is lost while in control")
    assert {each.mode for each in rig.run(1.0)} == {Mode.HOLD}


def test_a_device_that_comes_back_with_its_deadman_held_must_be_seen_released_first():
    rig = taken_over()
    lose(rig)
    rig.tick()
    rig.hand = twist(x=0.5)
    rig.run(0.1)
    assert "deadman" in str(rig.filter.resume(rig.now_ns))
    rig.hand = None
    rig.run(0.3)
    assert rig.filter.resume(rig.now_ns) is None
    lose(rig)
    rig.hand, rig.deadman = twist(x=0.5), True
    assert {each.mode for each in rig.run(0.3)} == {Mode.POLICY}
    rig.deadman = False
    rig.tick()
    rig.deadman = True
    assert rig.tick().mode is Mode.HUMAN


def test_a_device_that_is_lost_while_the_policy_drives_stops_nobody():
    rig = driving()
    lose(rig)
    assert {each.mode for each in rig.run(0.5)} == {Mode.POLICY}


def test_after_a_hold_a_held_deadman_must_be_pressed_anew():
    rig = driving()
    rig.hand, rig.deadman = twist(x=0.5), False
    rig.tick()
    rig.deadman = True
    rig.run(0.1)
    rig.filter.hold(ASKED)
    assert "deadman" in str(rig.filter.resume(rig.now_ns))
    rig.deadman = False
    rig.tick()
    assert rig.filter.resume(rig.now_ns) is None
    rig.deadman = True
    assert rig.tick().mode is Mode.HUMAN


def test_a_person_may_drive_while_the_policy_is_silent():
    rig = driving()
    rig.policy, rig.hand = None, twist(y=0.5)
    assert rig.run(0.3)[-1].mode is Mode.HOLD
    rig.deadman = True
    assert rig.tick().mode is Mode.HUMAN
    rig.deadman = False
    assert rig.run(0.5)[-1].mode is Mode.HOLD


def test_a_demo_without_a_policy_holds_still_instead_of_failing():
    rig = Rig().armed(policy_expected=False)
    rig.hand = np.zeros(6)
    quiet = rig.run(2.0)
    assert {(d.mode, d.source) for d in quiet} == {(Mode.HUMAN, Source.HOLD)}
    rig.deadman, rig.hand = True, twist(z=0.5)
    assert rig.run(0.5)[-1].source is Source.HUMAN
    rig.deadman = False
    assert rig.run(1.0)[-1].source is Source.HOLD
    assert rig.filter.mode is Mode.HUMAN
    rig.filter.end_episode()
    assert rig.filter.mode is Mode.READY


def test_a_gripper_press_reaches_the_command_and_counts_as_motion():
    rig = driving()
    rig.hand, rig.deadman = np.zeros(6), False
    rig.tick()
    rig.deadman, rig.gripper = True, -1
    decision = rig.tick()
    assert decision.command.gripper == 0.0
    assert decision.source is Source.HUMAN


def test_stop_is_latched_and_left_only_at_rest_to_disarmed():
    rig = driving()
    rig.filter.stop(STOP_PRESSED, who="console")
    assert rig.tick().mode is Mode.STOP
    rig.filter.disarm()
    rig.filter.hold(ASKED)
    rig.filter.end_episode()
    assert rig.filter.mode is Mode.STOP
    assert "moves" in str(rig.filter.clear_stop(rig.now_ns))
    assert str(rig.run(0.3)[-1].reason) == "stop pressed (console)"
    assert rig.filter.clear_stop(rig.now_ns) is None
    assert rig.filter.mode is Mode.DISARMED


@pytest.mark.parametrize(("event", "mode"), [("stop", Mode.STOP), ("hold", Mode.HOLD)])
def test_stop_and_hold_keys_work_even_on_a_broken_sample(event: str, mode: Mode):
    rig = driving()
    rig.offer_teleop(rig.sample(twist=np.full(6, np.nan), events=(event,)))
    assert rig.filter.mode is mode


def test_the_arm_key_resumes_a_hold():
    rig = driving()
    rig.filter.hold(ASKED)
    rig.run(0.3)
    rig.offer_teleop(rig.sample(events=("arm",)))
    assert rig.filter.mode is Mode.POLICY


def test_a_robot_fault_holds_and_stays_until_it_is_gone():
    rig = driving()
    rig.fault = Fault(kind=FaultKind.PROTECTIVE_STOP, text="protective stop")
    assert rig.tick().mode is Mode.HOLD
    assert "protective stop" in str(rig.filter.resume(rig.now_ns))
    rig.fault = None
    rig.run(0.3)
    assert rig.filter.mode is Mode.HOLD
    assert rig.filter.resume(rig.now_ns) is None


@pytest.mark.parametrize(("force_n", "speed"), [(14.9, 0.1), (25.0, 0.05), (30.0, 0.025)])
def test_soft_force_scales_the_push_and_lets_the_rest_be(force_n: float, speed: float):
    rig = driving()
    rig.policy = twist(x=0.1, y=0.05, rz=0.2)
    rig.wrench = np.array([-force_n, 0, 0, 0, 0, 0])
    pushed = rig.run(0.6)[-1]
    np.testing.assert_allclose(pushed.command.twist, twist(x=speed, y=0.05, rz=0.2), atol=1e-6)
    assert ("force" in pushed.clamped) == (force_n > 15)
    rig.policy = twist(x=-0.1)
    np.testing.assert_allclose(rig.run(0.6)[-1].command.twist, twist(x=-0.1), atol=1e-6)


def test_hard_force_holds_takes_the_push_out_at_once_and_needs_a_person():
    rig = driving()
    rig.wrench = np.array([-40.0, 0, 0, 0, 0, 0])
    decision = rig.tick()
    assert decision.mode is Mode.HOLD
    assert decision.command.twist[0] == pytest.approx(0.0, abs=1e-12)
    assert "40 N" in str(rig.filter.resume(rig.now_ns))
    rig.wrench = np.zeros(6)
    assert rig.run(0.5)[-1].mode is Mode.HOLD
    assert rig.filter.resume(rig.now_ns) is None


@pytest.mark.parametrize(("torque_nm", "turn"), [(2.9, 0.3), (5.5, 0.15), (7.5, 0.03)])
def test_soft_torque_scales_the_turn_into_it_and_lets_the_rest_be(torque_nm: float, turn: float):
    rig = driving()
    rig.policy = twist(x=0.1, rx=0.1, rz=0.3)
    rig.wrench = np.array([0, 0, 0, 0, 0, -torque_nm])
    turned = rig.run(0.6)[-1]
    np.testing.assert_allclose(turned.command.twist, twist(x=0.1, rx=0.1, rz=turn), atol=1e-6)
    assert turned.clamped == ((Clamp.TORQUE,) if torque_nm > 3.0 else ())
    rig.policy = twist(rz=-0.3)
    np.testing.assert_allclose(rig.run(0.6)[-1].command.twist, twist(rz=-0.3), atol=1e-6)


def test_hard_torque_holds_takes_the_turn_out_at_once_and_needs_an_operator():
    rig = driving()
    rig.policy = twist(rz=0.3)
    rig.run(0.5)
    rig.wrench = np.array([0, 0, 0, 0, 0, -60.0])
    decision = rig.tick()
    assert decision.mode is Mode.HOLD
    assert decision.reason is not None
    assert decision.reason.kind is RefusalKind.TORQUE
    assert str(decision.reason) == "contact torque 60.0 Nm (limit 8); free the arm, resume"
    assert decision.command.twist[5] == pytest.approx(0.0, abs=1e-12)
    refused = rig.filter.resume(rig.now_ns)
    assert str(refused) == "contact torque is 60.0 Nm, must be below 8 Nm; free the arm"
    rig.wrench = np.zeros(6)
    assert rig.run(0.5)[-1].mode is Mode.HOLD
    assert rig.filter.resume(rig.now_ns) is None


def test_a_gap_in_deciding_starts_again_from_rest():
    rig = driving()
    rig.now_ns += 60 * MS
    rig.filter.offer_state(rig.state(), rig.now_ns)
    rig.offer(rig.command(PUSH))
    assert np.abs(rig.decide().command.twist).max() <= 2.5 * TICK_NS / 1e9


def test_a_clock_that_goes_back_holds():
    rig = driving()
    rig.now_ns -= 5 * MS
    decision = rig.decide()
    assert decision.mode is Mode.HOLD
    assert "clock went back by 5 ms" in str(decision.reason)


def test_disarming_in_motion_ramps_down_and_stays_down():
    rig = driving()
    rig.filter.disarm()
    first = rig.tick().command.twist[0]
    assert 0.0 < first < 0.1
    assert not rig.run(0.1)[-1].command.twist.any()


def test_retract_backs_out_of_a_hard_contact_only_if_configured_and_not_for_long():
    rig = Rig(replace(LIMITS, retract_m_s=0.02)).armed()
    rig.policy = PUSH
    rig.run(0.3)
    rig.wrench = np.array([-40.0, 0, 0, 0, 0, 0])
    assert rig.run(0.3)[-1].command.twist[0] == pytest.approx(-0.02)
    assert not rig.run(0.4)[-1].command.twist.any()
    assert rig.filter.mode is Mode.HOLD


def silence_robot(rig: Rig) -> None:
    rig.robot_alive = False
    rig.run(LIMITS.state_timeout_s)


def remember_fault(rig: Rig) -> None:
    rig.fault = Fault(kind=FaultKind.PROTECTIVE_STOP, text="protective stop")
    rig.tick()
    rig.fault = None


def silence_teleop(rig: Rig) -> None:
    rig.hand = None
    rig.run(0.06)


@pytest.mark.parametrize(
    "want_standstill",
    [
        lambda rig: rig.filter.obey_key_stops(("hold",), "page"),
        lambda rig: rig.filter.hold(ASKED),
        silence_robot,
        remember_fault,
        silence_teleop,
    ],
)
def test_whatever_else_wants_the_arm_to_stand_ends_its_backing_out(want_standstill):
    rig = Rig(replace(LIMITS, retract_m_s=0.02), teleop_silence_s=0.05)
    rig.hand = np.zeros(6)
    rig.tick()
    rig.armed()
    rig.policy = PUSH
    rig.run(0.3)
    rig.wrench = np.array([-40.0, 0, 0, 0, 0, 0])
    assert rig.run(0.2)[-1].command.twist[0] == pytest.approx(-0.02)
    reason = rig.filter.reason
    want_standstill(rig)
    rig.run(0.03)
    assert not rig.run(0.1)[-1].command.twist.any()
    assert rig.filter.reason == reason


def test_arming_anew_forgives_no_deadman_that_a_hold_has_voided():
    rig = Rig(teleop_silence_s=0.5)
    rig.hand = np.zeros(6)
    rig.offer_teleop(rig.sample())
    rig.armed()
    rig.policy = np.zeros(6)
    rig.run(0.1)
    rig.deadman = True
    rig.run(0.1)
    rig.hand = None  # the device's process stalls with the button down
    rig.run(0.2)
    assert rig.filter.mode is Mode.HOLD
    rig.filter.disarm()
    assert rig.filter.arm(rig.now_ns) is None
    assert rig.filter.start(rig.now_ns) is None
    rig.hand = np.full(6, 0.5)
    assert {decision.mode for decision in rig.run(0.3)} == {Mode.POLICY}
    rig.deadman = False
    rig.run(0.05)
    rig.deadman = True
    assert rig.run(0.05)[-1].mode is Mode.HUMAN
