"""Joint limits of an arm without a model: slowed before the end, stopped at it, free on the way back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.control.audit.replay_checker import check_log
from robot_stack.control.safety.joint_guard import JointGuard
from robot_stack.control.safety.limits import JointLimit
from robot_stack.control.safety.motion import MotionShaper
from robot_stack.types.command import Mode
from tests.control.filter_rig import LIMITS, TICK_NS, Rig, twist
from tests.examples import examples

JOINTS = tuple(JointLimit(name=f"joint{n}", min_rad=-0.5, max_rad=1.5, max_speed_rad_s=2.0) for n in range(7))
GUARDED = replace(LIMITS, joints=JOINTS, joint_range_share=0.9)
MIDDLE_RAD, SOFT_RAD = 0.5, 0.9


class JointedRig(Rig):
    """Joints follow the twist by a fixed matrix that the filter does not know."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(GUARDED)
        self.gain = np.random.default_rng(seed).normal(size=(7, 6)) * 8.0
        self.joints = np.zeros(7)
        self.speeds = np.zeros(7)

    def state(self):
        return replace(super().state(), joints_rad=self.joints, joint_speeds_rad_s=self.speeds)

    def move(self, motion: np.ndarray) -> None:
        super().move(motion)
        self.pose = type(self.pose).from_rotation(np.array([0.0, 0.0, 0.15]), self.pose.rotation)  # a large room
        self.speeds = self.gain @ motion
        self.joints = self.joints + self.speeds * TICK_NS / 1e9


@pytest.mark.long
@settings(max_examples=examples(8), deadline=None)
@given(seed=st.integers(0, 1000), push=st.lists(st.floats(-0.2, 0.2), min_size=3, max_size=3).map(np.array))
def test_no_joint_passes_the_end_of_the_range_it_may_use(seed, push):
    rig = JointedRig(seed)
    rig.armed()
    rig.policy = np.concatenate([push, np.zeros(3)])
    rig.run(4.0)
    assert np.abs(rig.joints - MIDDLE_RAD).max() <= SOFT_RAD + 0.01
    assert rig.filter.mode is Mode.POLICY
    assert check_log(rig.log, GUARDED) == []


@pytest.mark.long
def test_it_slows_before_the_end_names_the_cut_and_lets_the_arm_back():
    rig = JointedRig()
    rig.gain = np.zeros((7, 6))
    rig.gain[3, 0] = 8.0
    rig.gain[0, 1] = 0.1
    rig.armed()
    rig.policy = twist(x=0.1)
    decisions = rig.run(4.0)
    assert rig.joints[3] == pytest.approx(MIDDLE_RAD + SOFT_RAD, abs=0.01)
    assert decisions[-1].clamped[0] == "joints"
    assert rig.filter.counters["clamped_joints"] > 10
    speeds = [d.command.twist[0] for d in decisions]
    assert np.diff(speeds).min() > -GUARDED.max_acceleration_m_s2 * TICK_NS / 1e9 * 1.01
    rig.policy = twist(y=0.1)  # moves another joint
    np.testing.assert_allclose(rig.run(0.5)[-1].command.twist, twist(y=0.1), atol=1e-3)
    rig.policy = twist(x=-0.1)
    np.testing.assert_allclose(rig.run(0.5)[-1].command.twist, twist(x=-0.1), atol=1e-6)


def test_a_joint_is_never_driven_faster_than_it_may():
    rig = JointedRig()
    rig.gain = np.zeros((7, 6))
    rig.gain[0, 5] = 40.0  # near a singularity
    rig.armed()
    rig.policy = twist(rz=0.9)
    rig.run(0.02)
    fastest = 0.0
    for _ in range(20):
        rig.tick()
        fastest = max(fastest, abs(float(rig.speeds[0])))
    assert fastest <= 2.0 + 0.2


def test_outside_the_robots_own_limits_it_holds_and_arming_is_refused_by_joint():
    rig = JointedRig()
    rig.armed()
    rig.policy = twist(x=0.01)
    rig.tick()
    rig.joints[4] = 1.55
    assert rig.tick().mode is Mode.HOLD
    assert "joint4 is at 1.550 rad, must be within -0.5 to 1.5; move it back" in str(rig.filter.reason)
    rig.run(0.3)
    assert str(rig.filter.resume(rig.now_ns)).startswith("joint4 is at")
    rig.joints[4] = 0.5
    rig.tick()
    assert rig.filter.resume(rig.now_ns) is None


@pytest.mark.parametrize("joints", [np.zeros(6), np.full(7, np.nan), np.zeros(0)])
def test_a_state_without_all_joints_is_refused(joints: np.ndarray):
    rig = JointedRig()
    rig.joints = joints
    assert "joints of state" in str(rig.filter.offer_state(rig.state(), rig.now_ns))


def test_an_arm_that_reports_no_joints_is_not_limited_by_them():
    state = Rig().state()
    guard = JointGuard(LIMITS)
    guard.watch(state)
    np.testing.assert_array_equal(guard.slowed(twist(x=0.2), twist(), state, 0.0), twist(x=0.2))
    assert guard.beyond(state) is None


def test_what_the_arm_has_moved_since_a_state_is_taken_off_its_room() -> None:
    rig, motion = JointedRig(), twist(x=0.1)
    rig.gain = np.zeros((7, 6))
    rig.gain[3, 0] = 8.0
    guard = JointGuard(GUARDED)
    rig.joints = np.full(7, MIDDLE_RAD + SOFT_RAD - 0.1)
    guard.watch(replace(rig.state(), twist=motion, joint_speeds_rad_s=rig.gain @ motion))
    at_once, late = (guard.slowed(motion, motion, rig.state(), age_s)[0] for age_s in (0.0, 0.09))
    assert late == pytest.approx(at_once * (0.1 - 0.8 * 0.09) / 0.1)


def test_how_joints_follow_is_still_known_after_a_limit_is_lowered():
    """A guard that begins anew has nothing to stop the first motion by."""
    rig = JointedRig()
    rig.gain = np.zeros((7, 6))
    rig.gain[3, 0] = 8.0
    shaper = MotionShaper(GUARDED)
    shaper.watch(replace(rig.state(), twist=twist(x=0.1), joint_speeds_rad_s=rig.gain @ twist(x=0.1)))
    shaper.limit(replace(GUARDED, max_speed_m_s=0.1))
    rig.joints = np.full(7, MIDDLE_RAD + SOFT_RAD)
    for _ in range(100):
        motion, _ = shaper.shape(twist(x=0.1), rig.state(), 0.0, TICK_NS / 1e9, brake=False)
    np.testing.assert_allclose(motion, 0.0, atol=1e-9)


def test_a_lower_speed_leaves_a_turning_joint_the_way_it_needs_to_brake():
    rig = JointedRig()
    rig.gain = np.zeros((7, 6))
    rig.gain[6, 5] = 1.0
    assert rig.filter.limit({"arm": replace(GUARDED, max_speed_m_s=0.02)}) is None
    rig.armed()
    rig.policy = twist(rz=1.0)
    rig.run(3.0)
    assert rig.joints[6] == pytest.approx(MIDDLE_RAD + SOFT_RAD, abs=0.002)
