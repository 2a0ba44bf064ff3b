"""Actions to twists and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robot_stack.control.action_space import ActionSpace
from robot_stack.control.executed import ExecutedMotion
from robot_stack.types.command import Source
from robot_stack.types.errors import SpecError
from robot_stack.types.pose import Pose
from robot_stack.types.spec import ArmSpec, CameraSpec, GripperKind, ProprioField, Spec
from tests.control.filter_rig import Rig, twist


def spec(*arms: ArmSpec) -> Spec:
    return Spec(
        arms=arms,
        cameras=(CameraSpec(name="wrist", height_px=64, width_px=64),),
        proprio=(ProprioField(name="gripper", size=1),),
        rate_hz=10.0,
    )


def arm(name: str = "arm", **fields: object) -> ArmSpec:
    return ArmSpec(**{"name": name, "translation_m": 0.02, "rotation_rad": 0.1, **fields})


DISCRETE = ActionSpace(spec(arm(gripper=GripperKind.DISCRETE)))
ENTRIES = st.floats(-1, 1, width=32)


def test_full_action_is_step_times_rate():
    command = DISCRETE.to_commands(np.ones(7, dtype=np.float32), stamp_ns=5)["arm"]
    np.testing.assert_allclose(command.twist, [0.2, 0.2, 0.2, 1.0, 1.0, 1.0])
    assert (command.frame, command.stamp_ns, command.source) == ("tcp", 5, Source.POLICY)


def test_inactive_axes_are_commanded_and_read_as_zero():
    space = ActionSpace(spec(arm(axes=("x", "rz"))))
    np.testing.assert_array_equal(space.to_commands(np.ones(2, np.float32), 1)["arm"].twist, [0.2, 0, 0, 0, 0, 1.0])
    np.testing.assert_array_equal(space.full_scale("arm"), [0.2, 0, 0, 0, 0, 1.0])
    np.testing.assert_array_equal(space.to_action({"arm": np.array([0.1, 9, 9, 9, 9, 0.5])}, {}), [0.5, 0.5])


@given(st.lists(ENTRIES, min_size=6, max_size=6), st.sampled_from([-1.0, 0.0, 1.0]))
def test_a_human_action_survives_the_round_trip(entries, gripper):
    action = np.array([*entries, gripper], dtype=np.float32)
    command = DISCRETE.to_commands(action, 1)["arm"]
    back = DISCRETE.to_action({"arm": command.twist}, {"arm": command.gripper})
    np.testing.assert_allclose(back, action, atol=1e-6)
    DISCRETE.spec.check_action(back)


@given(st.lists(st.floats(-1, 1, width=32), min_size=7, max_size=7))
def test_a_continuous_gripper_survives_the_round_trip(entries):
    space = ActionSpace(spec(arm(gripper=GripperKind.CONTINUOUS)))
    action = np.array(entries, dtype=np.float32)
    command = space.to_commands(action, 1)["arm"]
    np.testing.assert_allclose(space.to_action({"arm": command.twist}, {"arm": command.gripper}), action, atol=1e-6)


def test_a_continuous_gripper_that_nobody_asked_for_is_read_as_it_stands():
    space = ActionSpace(spec(arm(gripper=GripperKind.CONTINUOUS)))
    assert space.to_action({"arm": np.zeros(6)}, {"arm": None}, {"arm": 0.75})[-1] == pytest.approx(0.5)
    with pytest.raises(SpecError, match="gripper of arm arm is unknown"):
        space.to_action({"arm": np.zeros(6)}, {"arm": None})


@pytest.mark.parametrize(("entry", "opening"), [(-1.0, 0.0), (-0.5, None), (0.0, None), (0.5, None), (0.6, 1.0)])
def test_a_discrete_gripper_closes_stays_or_opens(entry: float, opening: float | None):
    action = np.zeros(7, dtype=np.float32)
    action[-1] = entry
    assert DISCRETE.to_commands(action, 1)["arm"].gripper == opening


def test_executed_motion_beyond_full_scale_is_clipped():
    assert DISCRETE.to_action({"arm": twist(x=5.0)}, {"arm": None})[0] == 1.0


def test_two_arms_are_laid_out_one_after_the_other():
    space = ActionSpace(spec(arm("left", axes=("x",)), arm("right", gripper=GripperKind.DISCRETE)))
    action = np.array([0.5, 0, 0, -1.0, 0, 0, 0, 1.0], dtype=np.float32)
    commands = space.to_commands(action, 1)
    assert commands["left"].twist[0] == pytest.approx(0.1)
    assert commands["right"].twist[2] == pytest.approx(-0.2)
    twists = {name: command.twist for name, command in commands.items()}
    np.testing.assert_allclose(space.to_action(twists, {"right": 1.0}), action, atol=1e-6)


@pytest.mark.parametrize("bad", [np.full(7, np.nan, np.float32), np.full(7, 2.0, np.float32), np.zeros(7)])
def test_an_action_that_does_not_fit_is_refused(bad: np.ndarray):
    with pytest.raises(SpecError):
        DISCRETE.to_commands(bad, 1)


def test_a_window_gives_executed_and_human_action():
    window = ExecutedMotion(
        twist=twist(x=0.1),
        gripper=0.0,
        human_twist=twist(y=0.2),
        human_gripper=1,
        source=Source.HUMAN,
        clipped=False,
    )
    np.testing.assert_allclose(DISCRETE.executed_action({"arm": window}), [0.5, 0, 0, 0, 0, 0, -1], atol=1e-6)
    np.testing.assert_allclose(DISCRETE.human_action({"arm": window}), [0, 1, 0, 0, 0, 0, 1], atol=1e-6)


def test_the_same_action_moves_the_end_effector_the_same_from_any_pose():
    """Fault 8: with p x R in the transform, the second motion would depend on where the arm stands."""
    motions = []
    tilted = Rotation.from_euler("xyz", [0.2, -0.1, 1.3]) * Rotation.from_quat([1.0, 0, 0, 0])
    for position, rotation in (([0, 0, 0.15], Rotation.from_quat([1.0, 0, 0, 0])), ([0.1, -0.1, 0.2], tilted)):
        rig = Rig()
        start = rig.pose = Pose.from_rotation(np.array(position), rotation)
        rig.armed()
        action = np.array([0.2, -0.1, -0.1, 0.05, 0.02, 0.3, 0], dtype=np.float32)
        rig.policy = DISCRETE.to_commands(action, 1)["arm"].twist
        rig.run(0.5)
        motions.append(rig.pose.relative_to(start))
    np.testing.assert_allclose(motions[0].position_m, motions[1].position_m, atol=1e-9)
    np.testing.assert_allclose(motions[0].rotation.as_rotvec(), motions[1].rotation.as_rotvec(), atol=1e-9)
