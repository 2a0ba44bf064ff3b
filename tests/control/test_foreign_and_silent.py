"""Strangers on the topics of the filter, a device that is gone, requests that waited, buttons that die."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from robot_stack.types.command import Mode
from robot_stack.types.pose import Pose
from robot_stack.types.reason import Fault, FaultKind, Refusal, RefusalKind
from tests.control.filter_rig import MS, Rig, twist

PUSH = twist(x=0.05)


def driving(**options: object) -> Rig:
    rig = Rig(**options)
    rig.hand = np.zeros(6)
    rig.tick()
    rig.armed()
    rig.policy = PUSH
    rig.run(0.3)
    assert rig.filter.mode is Mode.POLICY
    return rig


def test_a_strangers_state_is_never_taken_and_holds_at_once():
    rig = driving()
    elsewhere = Pose.from_rotation(np.zeros(3), rig.pose.rotation)
    hidden = replace(rig.state(), T_base_tcp=elsewhere, stamp_ns=rig.now_ns + 1)
    refusal = rig.filter.offer_state(hidden, rig.now_ns + 1, session=None)
    assert refusal.kind is RefusalKind.FOREIGN
    assert rig.filter.mode is Mode.HOLD
    assert rig.filter.reason.kind is RefusalKind.FOREIGN
    assert rig.filter.resume(rig.now_ns + 2).kind is RefusalKind.FOREIGN


def test_a_second_robot_process_holds_at_once():
    rig = driving()
    refusal = rig.filter.offer_state(replace(rig.state(), stamp_ns=rig.now_ns + 1), rig.now_ns + 1, session="robot-2")
    assert refusal.kind is RefusalKind.SECOND_SENDER
    assert rig.filter.mode is Mode.HOLD


def test_a_strangers_emergency_stop_is_a_hold_and_no_stop():
    rig = driving()
    fault = Fault(kind=FaultKind.EMERGENCY_STOP, text="made up")
    rig.filter.offer_state(replace(rig.state(), fault=fault, stamp_ns=rig.now_ns + 1), rig.now_ns + 1, session=None)
    assert rig.filter.mode is Mode.HOLD


def test_an_old_recording_of_a_stranger_is_refused_without_a_hold():
    rig = driving()
    old = replace(rig.state(), stamp_ns=rig.now_ns - 500 * MS)
    assert rig.filter.offer_state(old, rig.now_ns, session=None).kind is RefusalKind.STALE
    assert rig.tick().mode is Mode.POLICY


def test_a_strangers_hand_never_drives():
    rig = driving()
    sample = rig.sample(deadman=True, twist=twist(y=1.0), session=None, stamp_ns=rig.now_ns + 1)
    assert rig.filter.offer_teleop("arm", sample, rig.now_ns + 1).kind is RefusalKind.FOREIGN
    assert all(decision.requested[1] == 0.0 for decision in rig.run(0.3))


@pytest.mark.parametrize("lost", [False, True])
def test_a_device_that_is_gone_while_the_policy_drives_is_a_hold(lost: bool):
    rig = driving(teleop_silence_s=0.5)
    if lost:
        rig.offer_teleop(rig.sample(lost=True, stamp_ns=rig.now_ns + 1))
    rig.hand = None
    modes = [decision.mode for decision in rig.run(0.6)]
    assert modes.index(Mode.HOLD) <= (1 if lost else 51)
    expected = RefusalKind.TELEOP_LOST if lost else RefusalKind.TELEOP_SILENT
    assert rig.filter.reason.kind is expected
    assert rig.filter.resume(rig.now_ns).kind is expected


def test_without_that_line_in_the_cells_file_a_silent_device_holds_nothing():
    rig = driving()
    rig.hand = None
    assert rig.run(1.0)[-1].mode is Mode.POLICY


def test_a_cell_whose_device_has_never_spoken_is_not_armed():
    rig = Rig(teleop_silence_s=0.5)
    rig.tick()
    assert rig.filter.arm(rig.now_ns).kind is RefusalKind.TELEOP_SILENT


@pytest.mark.parametrize("pressed_after_ms", [0, 50, 150, 300])
@pytest.mark.parametrize("lost", [False, True])
def test_a_deadman_held_after_the_device_came_back_takes_over(pressed_after_ms: int, lost: bool):
    rig = driving()
    rig.hand = None
    for _ in range(20):
        if lost:
            rig.now_ns += MS
            rig.offer_teleop(rig.sample(lost=True))
        rig.tick()
    rig.hand = twist(x=0.5)
    rig.run(pressed_after_ms / 1e3)
    rig.deadman = True
    rig.run(0.05)
    assert rig.filter.mode is Mode.HUMAN


def test_after_a_hold_a_held_deadman_must_still_be_pressed_anew():
    rig = driving()
    rig.deadman = True
    rig.run(0.1)
    rig.hand = None
    assert rig.run(0.3)[-1].mode is Mode.HOLD
    rig.hand = np.zeros(6)
    rig.run(0.3)
    assert rig.filter.resume(rig.now_ns).kind is RefusalKind.DEADMAN_HELD


def test_what_was_asked_while_the_process_stood_still_is_not_obeyed():
    rig = driving()
    rig.now_ns += 2500 * MS
    assert rig.filter.resume(rig.now_ns).kind is RefusalKind.JUST_STALLED
    rig.run(0.2)
    assert rig.filter.mode is Mode.HOLD
    assert rig.filter.resume(rig.now_ns).kind is RefusalKind.JUST_STALLED
    rig.run(0.2)
    assert rig.filter.resume(rig.now_ns) is None


def test_a_machine_that_was_suspended_holds_although_its_steady_clock_has_not_seen_it():
    """An hour with the lid closed is one tick of CLOCK_MONOTONIC, by which every silence is judged."""
    asleep_ns = [7_000 * MS]
    rig = Rig(asleep_ns=lambda: asleep_ns[0])
    rig.armed()
    rig.policy = twist(x=0.1)
    assert rig.run(0.5)[-1].mode is Mode.POLICY
    asleep_ns[0] += 3_600_000 * MS
    assert rig.filter.start(rig.now_ns).kind is RefusalKind.JUST_STALLED
    decision = rig.tick()
    assert decision.mode is Mode.HOLD
    assert not decision.command.twist.any()
    assert "suspended for 3600 s" in rig.filter.reason.text
    assert rig.filter.resume(rig.now_ns).kind is RefusalKind.JUST_STALLED
    rig.run(0.4)
    assert rig.filter.resume(rig.now_ns) is None
    assert rig.run(0.5)[-1].mode is not Mode.HOLD


def test_each_stop_button_counts_by_itself():
    rig = Rig(stop_inputs_s={"desk": 0.5, "door": 0.5})
    rig.hand = np.zeros(6)
    for _ in range(5):
        rig.filter.offer_stop_input("desk", False, rig.now_ns)
        rig.filter.offer_stop_input("door", False, rig.now_ns)
        rig.tick()
    rig.armed()
    rig.filter.offer_stop_input("desk", True, rig.now_ns)
    for _ in range(150):
        rig.filter.offer_stop_input("door", False, rig.now_ns)
        rig.tick()
    refusal = rig.filter.clear_stop(rig.now_ns)
    assert refusal.kind is RefusalKind.STOP_INPUT_HELD
    assert "desk is pressed" in refusal.text


def test_a_button_that_dies_is_noticed_while_the_other_lives():
    rig = Rig(stop_inputs_s={"desk": 0.5, "door": 0.5})
    rig.filter.offer_stop_input("desk", False, rig.now_ns)
    rig.filter.offer_stop_input("door", False, rig.now_ns)
    rig.armed()
    rig.policy = PUSH
    for _ in range(60):
        rig.filter.offer_stop_input("door", False, rig.now_ns)
        rig.tick()
    assert rig.filter.mode is Mode.HOLD
    assert rig.filter.reason.kind is RefusalKind.STOP_INPUT_SILENT
    assert "desk is silent" in rig.filter.reason.text


def test_a_button_that_died_pressed_stays_pressed():
    rig = Rig()
    rig.filter.offer_stop_input("desk", True, rig.now_ns)
    rig.run(5.0)
    assert rig.filter.clear_stop(rig.now_ns).kind is RefusalKind.STOP_INPUT_HELD


def test_a_flood_on_any_topic_is_a_hold_because_its_topic_is_deaf_for_a_while():
    rig = driving()
    rig.filter.refuse("teleop", "arm", Refusal(kind=RefusalKind.FLOODED, text="teleop/events has too many"), rig.now_ns)
    assert rig.filter.mode is Mode.HOLD
    assert rig.filter.reason.kind is RefusalKind.FLOODED


def test_one_broken_message_is_no_hold():
    rig = driving()
    rig.filter.refuse("teleop", "arm", Refusal(kind=RefusalKind.MALFORMED, text="x"), rig.now_ns)
    assert rig.tick().mode is Mode.POLICY
