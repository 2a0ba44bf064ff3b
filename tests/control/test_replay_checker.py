"""The checker finds each kind of unsafe log, and passes a safe one."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robot_stack.control.audit.replay_checker import (
    AppliedTwist,
    LoggedTick,
    check_applied,
    check_log,
    check_stopped,
    safe_after_s,
)
from robot_stack.control.safety.limits import JointLimit, SafetyLimits
from robot_stack.types.command import Mode, Source
from robot_stack.types.pose import Pose
from tests.control.filter_rig import DOWN, LIMITS, TICK_NS, Rig, twist


def good_log() -> list[LoggedTick]:
    rig = Rig().armed()
    rig.policy = twist(x=0.1, rz=0.2)
    rig.run(0.5)
    rig.policy = None
    rig.run(0.6)
    return rig.log


def tampered(log: list[LoggedTick], index: int, *, motion: np.ndarray | None = None, mode: Mode | None = None):
    old = log[index].decision
    command = old.command if motion is None else replace(old.command, twist=motion)
    log[index] = replace(log[index], decision=replace(old, command=command, mode=old.mode if mode is None else mode))
    return log


def rules(log: list[LoggedTick], limits: SafetyLimits = LIMITS) -> set[str]:
    return {violation.rule for violation in check_log(log, limits)}


def with_state(log: list[LoggedTick], indices: range, **fields: object) -> list[LoggedTick]:
    for index in indices:
        log[index] = replace(log[index], state=replace(log[index].state, **fields))
    return log


def test_a_safe_log_passes():
    assert rules(good_log()) == set()


@pytest.mark.parametrize(
    ("index", "motion", "rule"),
    [
        (30, np.full(6, np.nan), "finite"),
        (30, twist(x=0.5), "speed"),
        (30, twist(rz=2.0), "rotation_speed"),
        (30, twist(x=-0.1), "acceleration"),
        (30, twist(x=0.1, rz=-0.5), "rotation_acceleration"),
        (105, twist(x=0.01), "standstill"),
    ],
)
def test_a_broken_rule_is_found_at_its_tick(index: int, motion: np.ndarray, rule: str):
    broken = check_log(tampered(good_log(), index, motion=motion), LIMITS)
    assert (index, rule) in {(violation.index, violation.rule) for violation in broken}


def test_motion_while_stopped_is_found():
    log = good_log()
    for index in range(20, 50):
        tampered(log, index, mode=Mode.STOP)
    assert "standstill" in rules(log)


def test_driving_into_a_wall_is_found():
    log = good_log()
    for index in range(30, 40):
        state = log[index].state
        wall = replace(state.T_base_tcp, position_m=np.array([0.2, 0.0, 0.15]))
        log[index] = replace(log[index], state=replace(state, T_base_tcp=wall))
    assert "workspace" in rules(log)


def test_a_silent_policy_stops_the_arm_within_its_bound():
    log = good_log()
    fault_ns = log[49].stamp_ns
    assert check_stopped(log, fault_ns, 0.16 + 0.1) == []
    assert check_stopped(log, fault_ns, 0.16 - 2 * TICK_NS / 1e9) != []


def test_safe_after_is_the_time_to_the_zeros_that_last():
    log = good_log()
    fault_ns = log[49].stamp_ns
    moved_ns = max(tick.stamp_ns for tick in log if np.abs(tick.decision.command.twist).max() > 1e-9)
    assert safe_after_s(log, fault_ns) == pytest.approx((moved_ns + TICK_NS - fault_ns) / 1e9)
    assert safe_after_s(log[:60], fault_ns) == float("inf")


def test_an_empty_log_and_one_without_states_are_judged_too():
    assert check_log([], LIMITS) == []
    blind = [replace(tick, state=None) for tick in good_log()]
    assert rules(blind) == set()
    assert rules(tampered(blind, 30, motion=twist(x=0.5))) >= {"speed"}


def test_tilting_out_of_the_cone_is_found_and_tilting_back_is_not():
    log = good_log()
    leant = Rotation.from_rotvec([LIMITS.tilt_cone_rad + 0.2, 0.0, 0.0])
    for index in range(30, 40):
        pose = Pose.from_rotation(np.array([0.0, 0.0, 0.15]), leant * DOWN)
        log[index] = replace(log[index], state=replace(log[index].state, T_base_tcp=pose))
        tampered(log, index, motion=twist(rx=0.05))
    assert "tilt" in rules(log)
    for index in range(30, 40):
        tampered(log, index, motion=twist(rx=-0.05))
    assert "tilt" not in rules(log)


def test_pushing_on_at_the_hard_force_is_found_and_letting_go_is_not():
    log = with_state(good_log(), range(30, 40), wrench=np.array([-40.0, 0, 0, 0, 0, 0]))
    assert "force" in rules(log)
    for index in range(30, 40):
        tampered(log, index, motion=twist(x=-0.01))
    assert "force" not in rules(log)


def test_turning_on_at_the_hard_torque_is_found_and_letting_go_is_not():
    log = with_state(good_log(), range(30, 40), wrench=np.array([0, 0, 0, 0, 0, -9.0]))
    assert "torque" in rules(log)
    for index in range(30, 40):
        tampered(log, index, motion=twist(x=0.1, rz=-0.01))
    assert "torque" not in rules(log)


def test_a_decision_that_a_force_had_not_reached_yet_is_no_push_and_one_that_it_had_is():
    log = with_state(good_log(), range(30, 40), wrench=np.array([-40.0, 0, 0, 0, 0, 0]))
    untouched = good_log()[29].state
    for index in range(30, 40):
        log[index] = replace(log[index], heard=untouched)
    assert "force" not in rules(log)
    log[39] = replace(log[39], heard=log[39].state)
    assert [violation.index for violation in check_log(log, LIMITS) if violation.rule == "force"] == [39]


def test_an_arm_that_lets_go_of_a_force_that_is_over_may_do_so_at_once():
    log = good_log()
    felt = replace(log[40].state, wrench=np.array([-40.0, 0, 0, 0, 0, 0]))
    tampered(log, 40, motion=np.zeros(6))
    assert "acceleration" in rules(log[:41])
    log[40] = replace(log[40], heard=felt)
    assert "acceleration" not in rules(log[:41])


def test_moving_with_a_joint_outside_its_limits_is_found():
    joints = tuple(JointLimit(name=f"j{n}", min_rad=-4.0, max_rad=4.0, max_speed_rad_s=2.0) for n in range(7))
    limits = replace(LIMITS, joints=joints)
    assert rules(good_log(), limits) == set()
    log = with_state(good_log(), range(10, 50), joints_rad=np.array([0, 0, 0, 4.2, 0, 0, 0]))
    assert rules(log, limits) == {"joints"}
    assert rules(with_state(good_log(), range(10, 50), joints_rad=np.zeros(6))[10:50], limits) == {"joints"}


@pytest.mark.parametrize("which", ["decision", "command"])
def test_a_tick_that_says_two_things_about_its_driver_is_found(which: str):
    log = good_log()
    old = log[30].decision
    if which == "decision":
        changed = replace(old, source=Source.HUMAN)
    else:
        changed = replace(old, command=replace(old.command, source=Source.HOLD))
    log[30] = replace(log[30], decision=changed)
    assert rules(log) == {"source"}


def test_a_gripper_that_moves_in_a_hold_is_found():
    log = good_log()
    old = log[100].decision
    log[100] = replace(log[100], decision=replace(old, command=replace(old.command, gripper=1.0)))
    assert rules(log) == {"standstill"}


def test_after_a_gap_only_a_start_from_rest_is_safe():
    log = good_log()
    assert "acceleration" in rules(log[:20] + log[40:])
    stopped = [tick for tick in log if not np.abs(tick.decision.command.twist).max() > 1e-9]
    assert rules([*stopped[-3:-2], *stopped[-1:]]) == set()


def applied_of(log: list[LoggedTick]) -> list[AppliedTwist]:
    return [AppliedTwist(stamp_ns=t.stamp_ns + 3_000_000, twist=t.decision.command.twist) for t in log]


def test_what_the_motors_got_must_have_been_decided_just_before():
    log = good_log()
    assert check_applied(applied_of(log), log, LIMITS) == []
    other = applied_of(log)
    other[30] = replace(other[30], twist=twist(x=0.2))
    assert [violation.index for violation in check_applied(other, log, LIMITS)] == [30]
    late = [replace(each, stamp_ns=each.stamp_ns + 60_000_000) for each in applied_of(log)]
    assert check_applied(late, log, LIMITS) != []
    zeros = [replace(each, twist=np.zeros(6)) for each in late]
    assert check_applied(zeros, log, LIMITS) == []


def test_where_decisions_are_missing_only_a_stale_twist_is_found():
    log = good_log()
    lost = log[:20] + log[27:]
    assert check_applied(applied_of(log), lost, LIMITS) == []
    stuck = [replace(each, twist=log[19].decision.command.twist) for each in applied_of(log[20:30])]
    assert {violation.index for violation in check_applied(stuck, lost, LIMITS)} >= {6}


@pytest.mark.long
def test_an_hour_of_log_is_checked_in_seconds():
    log = good_log()
    long = [
        replace(tick, decision=replace(tick.decision, command=replace(tick.decision.command, stamp_ns=n * TICK_NS)))
        for n, tick in enumerate(log * 90)
    ]
    begun_s = time.process_time()
    check_log(long, LIMITS)
    assert time.process_time() - begun_s < len(long) / 1e4  # an hour is 360,000 ticks
