"""The arm stands and moves like the one it is named after, under its impedance controller."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robot_stack.config.resolved import ResolvedRun
from robot_stack.types.errors import SpecError
from sim.arms import find_arm
from sim.controller import Impedance
from sim.world import World

GAINS = Impedance()


def _move(world: World, twist: list[float], seconds: float) -> tuple[np.ndarray, Rotation]:
    """Displacement of the TCP in the frame it started in, after the arm has come to rest."""
    start = world.state().T_base_tcp
    world.command(np.array(twist))
    world.advance(seconds)
    world.command(np.zeros(6))
    world.advance(0.5)
    moved = world.state().T_base_tcp.relative_to(start)
    return moved.position_m, moved.rotation


def _reset_to(world: World, xyz: tuple[float, float, float], yaw_rad: float) -> None:
    """Reset with the TCP at a given pose, whatever the task would have drawn."""
    world.task.start_poses = lambda rng: np.array([[*xyz, yaw_rad]])  # type: ignore[method-assign]
    world.reset(0)


def test_home_pose_is_the_published_one(world: World) -> None:
    pose = world.state().T_base_tcp
    np.testing.assert_allclose(pose.position_m, [0.3069, 0.0, 0.4869], atol=2e-4)
    np.testing.assert_allclose(pose.rotation.as_matrix()[:, 2], [0, 0, -1], atol=1e-3)


def test_unknown_arm_is_refused_by_name() -> None:
    with pytest.raises(SpecError, match=r"'fr4', must be one of \['fr3'\]"):
        find_arm("fr4")


def test_arm_starts_where_the_task_wants_it_pointing_down(world: World) -> None:
    _reset_to(world, (0.48, 0.03, 0.2), 0.1)
    pose = world.state().T_base_tcp
    np.testing.assert_allclose(pose.position_m, [0.48, 0.03, 0.2], atol=5e-4)
    tilt = Rotation.from_euler("z", 0.1) * Rotation.from_euler("x", np.pi) * pose.rotation.inv()
    assert tilt.magnitude() < 3e-3


def test_all_over_the_workspace_the_arm_starts_without_a_joint_wound_up(resolved: ResolvedRun, world: World) -> None:
    box, rng, arm = resolved.cell.workspace, np.random.default_rng(0), world.arms["fr3"]
    assert box is not None
    low, high = world.model.jnt_range[[world.model.joint(f"arm/joint{number}").id for number in range(1, 8)]].T
    for _ in range(150):
        arm.stand_at(world.data, np.array([*rng.uniform(box.min_m, box.max_m), rng.uniform(-0.7, 0.7)]))
        angles = arm.state(world.data, 0).joints_rad
        assert (angles > low).all(), angles
        assert (angles < high).all(), angles


def test_arm_holds_its_pose(world: World) -> None:
    world.reset(1)
    before = world.state().T_base_tcp
    world.advance(1.0)
    after = world.state().T_base_tcp.relative_to(before)
    assert np.linalg.norm(after.position_m) < 1e-3
    assert after.rotation.magnitude() < 5e-3


@pytest.mark.parametrize("axis", range(3))
def test_arm_follows_a_linear_twist(axis: int, world: World) -> None:
    _reset_to(world, (0.5, 0.0, 0.22), 0.1)
    twist = np.zeros(6)
    twist[axis] = -0.04
    moved, turned = _move(world, list(twist), 0.5)
    np.testing.assert_allclose(moved, 0.5 * twist[:3], atol=1e-3)
    assert turned.magnitude() < 0.01


@pytest.mark.parametrize("axis", range(3))
def test_arm_follows_a_rotation(axis: int, world: World) -> None:
    _reset_to(world, (0.5, 0.0, 0.22), 0.0)
    twist = np.zeros(6)
    twist[3 + axis] = 0.3
    moved, turned = _move(world, list(twist), 0.5)
    np.testing.assert_allclose(turned.as_rotvec(), 0.5 * twist[3:], atol=0.01)
    assert np.linalg.norm(moved) < 2e-3


def test_same_action_moves_the_tcp_alike_from_two_start_yaws(world: World) -> None:
    twist = [0.04, -0.02, -0.03, 0.0, 0.0, 0.2]
    moved = []
    for yaw_rad in (-0.17, 0.17):
        _reset_to(world, (0.5, 0.0, 0.22), yaw_rad)
        moved.append(_move(world, twist, 0.5))
    (one, one_turn), (other, other_turn) = moved
    np.testing.assert_allclose(one, other, atol=1e-3)
    assert (one_turn * other_turn.inv()).magnitude() < 0.01
    assert np.linalg.norm(one) > 0.02


def test_pushing_into_the_table_is_bounded_by_the_clipped_error(world: World) -> None:
    _reset_to(world, (0.56, 0.11, 0.06), 0.0)  # beside the socket
    world.command(np.array([0, 0, 0.08, 0, 0, 0.0]))  # z of the tool points down
    limits = world.model.actuator_ctrlrange[:7]
    forces = []
    for _ in range(150):
        world.advance(0.01)
        forces.append(np.linalg.norm(world.state().wrench[:3]))
        assert (np.abs(world.data.ctrl[:7]) <= limits[:, 1] + 1e-9).all()
    bound_n = GAINS.translational_stiffness_n_m * GAINS.max_position_error_m
    assert np.mean(forces[-50:]) > 3.0  # it does push
    assert np.max(forces[-50:]) < 1.3 * bound_n


def test_torques_stay_within_the_motors_limits_under_a_wild_twist(world: World) -> None:
    world.reset(2)
    limits = world.model.actuator_ctrlrange[:7]
    rng = np.random.default_rng(0)
    largest = np.zeros(7)
    for _ in range(60):
        world.command(rng.uniform(-2, 2, 6))
        world.advance(0.02)
        largest = np.maximum(largest, np.abs(world.data.ctrl[:7]))
    assert (largest <= limits[:, 1]).all()
    assert np.isfinite(world.data.qpos).all()


def test_wrench_is_zero_in_the_air_and_points_out_of_a_contact(world: World) -> None:
    _reset_to(world, (0.56, 0.11, 0.06), 0.0)
    world.advance(0.2)
    assert np.linalg.norm(world.state().wrench[:3]) < 1.0
    world.command(np.array([0, 0, 0.05, 0, 0, 0.0]))
    world.advance(1.0)
    assert world.state().wrench[2] < -3.0  # the table pushes back along -z of the tool, which is up


def test_twist_is_reported_in_the_tool_frame(world: World) -> None:
    _reset_to(world, (0.5, 0.0, 0.22), 0.3)
    world.command(np.array([0.05, 0, 0, 0, 0, 0.0]))
    world.advance(0.4)
    np.testing.assert_allclose(world.state().twist[:3], [0.05, 0, 0], atol=0.005)


def test_time_is_what_was_advanced(world: World) -> None:
    world.reset(0)
    before = world.time_ns
    world.advance(0.25)
    assert world.time_ns - before == 250_000_000
    assert world.state().stamp_ns == world.time_ns
