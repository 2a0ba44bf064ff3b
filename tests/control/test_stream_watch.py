"""Who sends, by which clock, and whether the wired stop says something."""

from __future__ import annotations

import numpy as np
import pytest

from robot_stack.control.safety.admission import ClockWatch
from robot_stack.control.safety.output_watchdog import OutputWatchdog
from robot_stack.control.safety.publisher_guard import RELEASE_NS, PublisherGuard
from robot_stack.types.command import Mode
from robot_stack.types.reason import Fault, FaultKind
from tests.control.filter_rig import MS, Rig, TwoArmRig, twist

PUSH = twist(x=0.05)
BUTTON = "safety/stop_input/desk"


def driving() -> Rig:
    rig = Rig().armed()
    rig.policy = PUSH
    rig.run(0.3)
    return rig


def test_the_first_sender_has_the_stream_until_it_is_silent_for_a_second():
    senders = PublisherGuard()
    assert senders.refusal("arm/policy/cmd", "a", 0) is None
    assert "arm/policy/cmd has two senders, a and b" in str(senders.refusal("arm/policy/cmd", "b", RELEASE_NS))
    assert senders.contested(RELEASE_NS) is not None
    assert senders.refusal("arm/policy/cmd", "b", RELEASE_NS + 1) is None
    assert senders.contested(RELEASE_NS + 1) is None
    assert senders.refusal("arm/teleop/cmd", "c", 0) is None


def test_a_second_policy_is_refused_holds_and_blocks_resuming_until_it_is_gone():
    rig = driving()
    for _ in range(3):
        rig.tick()
        refusal = rig.filter.offer([rig.command(twist(y=0.2), session="b", stamp_ns=rig.now_ns + 1)], rig.now_ns + 1)
        assert "two senders, unnamed and b, must have one; stop one" in str(refusal)
    assert rig.filter.mode is Mode.HOLD
    assert all(tick.decision.requested[1] == 0.0 for tick in rig.log)
    assert "two senders" in str(rig.filter.resume(rig.now_ns))
    rig.run(1.1)
    assert rig.filter.resume(rig.now_ns) is None
    assert rig.run(0.2)[-1].mode is Mode.POLICY


def test_a_second_hand_is_refused_but_its_stop_counts():
    rig = driving()
    rig.hand = np.zeros(6)
    rig.tick()
    other = rig.sample(session="b", stamp_ns=rig.now_ns + 1, deadman=True, twist=twist(y=1.0), events=("stop",))
    assert "arm/teleop/cmd has two senders" in str(rig.filter.offer_teleop("arm", other, rig.now_ns + 1))
    assert rig.tick().mode is Mode.STOP


def test_a_second_hand_on_one_of_two_arms_is_named_by_its_topic_and_holds_both():
    rig = TwoArmRig().armed()
    rig.policy = dict.fromkeys(rig.arms, PUSH)
    rig.hands = dict.fromkeys(rig.arms, np.zeros(6))
    rig.run(0.3)
    other = rig.sample("right", session="b", stamp_ns=rig.now_ns + 1)
    refusal = rig.filter.offer_teleop("right", other, rig.now_ns + 1)
    assert str(refusal) == "right/teleop/cmd has two senders, unnamed and b, must have one; stop one"
    assert {decision.mode for decision in rig.tick().values()} == {Mode.HOLD}


def test_the_robots_side_stands_still_between_two_safety_processes():
    watchdog = OutputWatchdog(0.05)
    assert watchdog.offer(PUSH, 100 * MS, 100 * MS, session="safety-a", mode=Mode.POLICY) is None
    assert watchdog.offer_gripper(1.0, 101 * MS, 101 * MS, session="safety-a") is None
    assert watchdog.twist(101 * MS).any()
    assert "safety/cmd has two senders" in str(
        watchdog.offer(PUSH, 102 * MS, 102 * MS, session="safety-b", mode=Mode.POLICY)
    )
    assert not watchdog.twist(103 * MS).any()
    assert watchdog.gripper is None
    assert "safety-b" in str(watchdog.contested(103 * MS))
    assert watchdog.offer(PUSH, 1150 * MS, 1150 * MS, session="safety-a", mode=Mode.POLICY) is None
    assert watchdog.twist(1151 * MS).any()


@pytest.mark.parametrize(("late_ms", "way"), [(51, "51 ms behind"), (-51, "51 ms ahead of"), (3_600_000, "behind")])
def test_a_stream_on_another_clock_is_named(late_ms: int, way: str):
    watch = ClockWatch()
    for tick in range(5):
        now_ns = (10_000 + 20 * tick) * MS
        watch.heard("arm/policy/cmd", now_ns - late_ms * MS if late_ms < 10_000 else 1, now_ns)
    said = str(watch.skewed(10_100 * MS))
    assert "stamps of arm/policy/cmd are" in said
    assert way in said
    assert "must be within 50 ms; synchronise the hosts" in said
    assert ("or end what delays the messages" in said) == (late_ms > 0)  # nothing that waited is from the future
    assert watch.skewed(12_000 * MS) is None  # silent by now


def test_one_late_message_is_no_skew():
    watch = ClockWatch()
    for tick, late_ms in enumerate([80, 3, 70, 90, 60]):
        now_ns = (10_000 + 20 * tick) * MS
        watch.heard("arm/teleop/cmd", now_ns - late_ms * MS, now_ns)
    assert watch.skewed(10_100 * MS) is None


def test_arming_is_refused_on_stamps_of_another_clock():
    rig = Rig()
    for _ in range(5):
        rig.tick()
        rig.offer(rig.command(PUSH, stamp_ns=rig.now_ns - 100 * MS))
    assert "synchronise the hosts" in str(rig.filter.arm(rig.now_ns))
    rig.run(1.1)
    assert rig.filter.arm(rig.now_ns) is None


def test_a_wired_stop_latches_and_is_cleared_only_once_it_is_released():
    rig = driving()
    rig.filter.offer_stop_input(BUTTON, True, rig.now_ns)
    assert rig.tick().mode is Mode.STOP
    assert str(rig.filter.reason) == "emergency stop pressed (safety/stop_input/desk)"
    rig.run(0.3)
    assert "is pressed, must be released" in str(rig.filter.clear_stop(rig.now_ns))
    rig.filter.offer_stop_input(BUTTON, False, rig.now_ns)
    assert "is pressed" in str(rig.filter.clear_stop(rig.now_ns))  # it may bounce
    rig.run(1.1)
    assert rig.filter.clear_stop(rig.now_ns) is None


def test_a_wired_stop_that_falls_silent_holds_and_one_never_heard_refuses_arming():
    rig = Rig(stop_inputs_s={BUTTON: 0.5})
    rig.tick()
    assert "has said nothing" in str(rig.filter.arm(rig.now_ns))
    rig.filter.offer_stop_input(BUTTON, False, rig.now_ns)
    rig.armed()
    rig.policy = PUSH
    assert rig.run(0.5)[-1].mode is Mode.POLICY
    assert rig.tick().mode is Mode.HOLD
    assert "safety/stop_input/desk is silent for 510 ms (limit 500)" in str(rig.filter.reason)
    assert "silent" in str(rig.filter.resume(rig.now_ns))


def test_the_robots_own_emergency_stop_latches_even_while_disarmed():
    rig = Rig()
    rig.fault = Fault(kind=FaultKind.EMERGENCY_STOP, text="ROBOT_EMERGENCY_STOP on the pendant")
    rig.tick()
    assert rig.filter.mode is Mode.STOP
    assert "recover the robot" in str(rig.filter.clear_stop(rig.now_ns))
    rig.fault = None
    rig.tick()
    assert rig.filter.clear_stop(rig.now_ns) is None


def test_a_long_pause_of_the_safety_process_is_a_hold():
    rig = driving()
    rig.now_ns += 250 * MS
    rig.filter.offer_state(rig.state(), rig.now_ns)
    rig.offer(rig.command(PUSH))
    decision = rig.decide()
    assert decision.mode is Mode.HOLD
    assert "stood still for 250 ms" in str(decision.reason)
