"""The checker finds each kind of unsafe log, and passes a safe one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from filter_rig import LIMITS, TICK_NS, Rig, twist

from robot_stack.control.replay_checker import LoggedTick, check_log, check_stopped
from robot_stack.types.command import Mode


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


def rules(log: list[LoggedTick]) -> set[str]:
    return {violation.rule for violation in check_log(log, LIMITS)}


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
