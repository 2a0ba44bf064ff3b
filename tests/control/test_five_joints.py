"""An arm of five joints turns its hand as it moves: it is no fault, and what it cannot be told is still one."""

from __future__ import annotations

import numpy as np
import pytest

from robot_stack.control.audit.replay_checker import check_log
from robot_stack.control.drivers.first_motion import FirstMotion, Moved, Trouble, judge
from robot_stack.control.kinematics.joint_motion import JointMotionSolver
from robot_stack.control.safety.tracking import TrackingMonitor
from robot_stack.types.command import Mode
from tests.control.fr3_chain import chain_of, limits_of
from tests.control.shipped_rig import ShippedRig

pytestmark = pytest.mark.long

STEEP = np.array([0.0, -0.5, 0.5, 1.3, 0.0])
NEAR = np.array([0.0, -0.9, 0.9, 1.3, 0.0])


@pytest.mark.parametrize("angles", [None, NEAR])
@pytest.mark.parametrize("speed_m_s", [0.05, 0.1])
def test_a_hand_that_has_to_turn_on_its_way_sideways_is_no_fault(angles: np.ndarray | None, speed_m_s: float) -> None:
    rig = ShippedRig("so101_table", angles)
    for side in (1.0, -1.0):
        assert rig.go(0.8, base_m_s=(0.0, side * speed_m_s, 0.0)) is Mode.POLICY, rig.filter.reason
    assert check_log(rig.log, rig.limits) == []


@pytest.mark.parametrize("angles", [None, STEEP])
def test_the_fingers_come_down_to_a_cube_on_the_table(angles: np.ndarray | None) -> None:
    """The tips end 6 mm below the TCP; they hold a cube of 3 cm, and stay clear of the table."""
    rig = ShippedRig("so101_table", angles)
    rig.go(1.0, base_m_s=(0.05, 0.0, 0.0))
    rig.go(4.0, base_m_s=(0.0, 0.0, -0.08))
    assert 0.024 <= rig.pose.position_m[2] <= 0.029


def test_a_hand_that_turns_further_than_it_is_told_is_one_all_the_same() -> None:
    rig = ShippedRig("so101_table")
    rig.scale = np.array([1.0, 1.0, 1.0, 3.0, 3.0, 3.0])
    assert rig.go(0.5, roll_rad_s=0.5) is Mode.HOLD
    assert "too far" in str(rig.filter.reason)


def test_the_log_alone_proves_that_a_hand_turned_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrackingMonitor, "fault", lambda *_: None)
    rig = ShippedRig("so101_table")
    rig.scale = np.array([1.0, 1.0, 1.0, 3.0, 3.0, 3.0])
    assert rig.go(1.0, roll_rad_s=0.5) is Mode.POLICY
    assert any("rad in half a second" in violation.text for violation in check_log(rig.log, rig.limits))


def first_motion(bent: np.ndarray) -> list[Moved]:
    """What a shipped SO-101 makes of its first motion from home; its driver gets `bent`, (6, 6), times each twist."""
    chain, limits = chain_of("so101_bus"), limits_of("so101_bus")
    solver, angles = JointMotionSolver(chain, limits), limits.home
    motion = FirstMotion(("x", "y", "z", "rz"), speed_m_s=0.01, rotation_speed_rad_s=0.06)
    for tick in range(5000):
        twist = bent @ motion.twist(chain.pose(angles), tick * 10_000_000, held=True)
        angles = angles + solver.solve(angles, twist).speeds * 0.01
    assert motion.done
    return motion.moved


def test_the_first_motion_of_a_right_arm_of_five_joints_is_well() -> None:
    verdicts = judge(first_motion(np.eye(6)), turns=False)
    assert [verdict.kind for verdict in verdicts] == [Trouble.NONE] * 4, verdicts


def test_a_hand_that_turns_as_no_arm_of_five_joints_need_is_told_by_its_first_motion() -> None:
    bent = np.eye(6)
    bent[5, 1] = 15.0  # rad/s about its axis per m/s along y
    assert judge(first_motion(bent), turns=False)[1].kind is Trouble.LEVER
